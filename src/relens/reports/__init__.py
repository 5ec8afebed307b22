from relens.reports.write import check_extra as check_extra
from relens.reports.write import write_report as write_report
