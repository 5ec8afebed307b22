from relens.report.write import check_extra as check_extra
from relens.report.write import write_report as write_report
