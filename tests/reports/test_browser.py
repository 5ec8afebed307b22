"""The page in a real browser: it opens, sorts, filters, fits, and complains about nothing."""

import shutil

import pytest

from relens.reports import write_report
from relens.runs import Run
from tests.browser import browser, console_errors, needs_browser

pytestmark = needs_browser
COLUMNS = (
    "relation", "direction", "test queries", "validation queries", "class", "MRR of dsc", "MRR of gamma",
    "gain over gamma", "p of that gain", "best model here", "its MRR",
)  # fmt: skip
MRR, P = COLUMNS.index("MRR of dsc"), COLUMNS.index("p of that gain")


@pytest.fixture(scope="module")
def address(tiny_run, tmp_path_factory):
    run = Run.open(shutil.copytree(tiny_run, tmp_path_factory.mktemp("browser") / "run"))
    return write_report(run, run.path / "report").as_uri()


@pytest.fixture(scope="module")
def driver():
    with browser() as driver:
        yield driver


@pytest.fixture
def page(driver, address):
    driver.get(address)
    yield driver
    assert console_errors(driver) == []


def column(page, at):
    """Return the texts of a column, the rows that are shown, from the top."""
    rows = "[...document.querySelectorAll('#all tbody tr:not([hidden])')]"
    texts = page.execute_script(f"return {rows}.map((row) => row.cells[arguments[0]].textContent)", at)
    return [text.strip() for text in texts]


def shown_figures(page):
    return [svg for svg in page.find_elements("css selector", "figure svg") if svg.is_displayed()]


def press(page, at):
    page.find_elements("css selector", "#all thead button")[at].click()


def test_the_page_opens(page):
    assert "relens report" in page.title
    assert page.find_element("tag name", "h1").text.startswith("On the test split of simulated the ensemble dsc")
    assert len(shown_figures(page)) == 3


def test_a_click_sorts_and_another_turns_the_order(page):
    before = column(page, MRR)
    press(page, MRR)
    assert column(page, MRR) == sorted(before, key=float, reverse=True) != before
    head = page.find_elements("css selector", "#all thead th")[MRR]
    assert head.get_attribute("aria-sort") == "descending"
    press(page, MRR)
    assert column(page, MRR) == sorted(before, key=float)
    assert head.get_attribute("aria-sort") == "ascending"
    press(page, 0)
    assert column(page, 0) == sorted(column(page, 0))
    assert head.get_attribute("aria-sort") is None


def test_rows_without_a_number_come_last_either_way(page):
    for _ in range(2):
        press(page, P)
        found = column(page, P)
        assert found[2:] == ["–"] * 6
        assert "–" not in found[:2]


def test_small_p_values_come_first(page):
    press(page, P)
    assert page.find_elements("css selector", "#all thead th")[P].get_attribute("aria-sort") == "ascending"
    assert column(page, P)[:2] == sorted(column(page, P)[:2], key=float)


def test_the_keyboard_sorts(page):
    from selenium.webdriver.common.keys import Keys

    page.find_elements("css selector", "#all thead button")[2].send_keys(Keys.ENTER)
    assert column(page, 2) == ["12", "12", "9", "9", "6", "6", "3", "3"]


def test_typing_filters_and_says_how_many_are_left(page):
    box = page.find_element("id", "find")
    box.send_keys("Relation 2 head")
    assert list(zip(column(page, 0), column(page, 1), strict=True)) == [("relation 2", "head")]
    assert page.find_element("id", "shown").text == "1 of 8 rows"
    box.clear()
    box.send_keys("nothing like it")
    assert column(page, 0) == []


def test_rows_are_filtered_by_the_result_of_their_test(page):
    from selenium.webdriver.support.ui import Select

    Select(page.find_element("id", "only")).select_by_value("untested")
    assert column(page, 2) == ["9", "9", "6", "6", "3", "3"]


def test_columns_are_chosen(page):
    def visible():
        return [h.text for h in page.find_elements("css selector", "#all thead th") if h.is_displayed()]

    assert visible() == list(COLUMNS)
    page.find_element("css selector", "input[value=weights]").click()
    assert visible() == ["relation", "direction", "test queries", "alpha", "beta", "gamma"]


def test_a_table_of_few_rows_shows_them_all(page):
    box = page.find_element("css selector", "[aria-label='All relations']")
    assert page.execute_script("return arguments[0].scrollHeight <= arguments[0].clientHeight", box)


def test_a_phone_shows_whole_figures(address):
    """Every text and every mark of every figure is on the screen, without scrolling sideways, and can be read."""
    with browser(width=390, height=844) as phone:
        phone.get(address)
        figures = shown_figures(phone)
        assert len(figures) == 3
        for figure in figures:
            parts = phone.execute_script(
                """const boxes = [...arguments[0].querySelectorAll("text, path, use")].map((part) => {
                     const box = part.getBoundingClientRect();
                     return [part.tagName, box.left, box.right, box.height];
                   });
                   return boxes.filter(([, left, right, height]) => right > left || height > 0);""",
                figure,
            )
            assert len(parts) > 20
            assert all(left >= 0 and right <= 390 for _, left, right, _ in parts)
            assert all(height >= 8 for tag, _, _, height in parts if tag == "text")
            scrolls = "const box = arguments[0].closest('figure'); return box.scrollWidth > box.clientWidth"
            assert not phone.execute_script(scrolls, figure)


def test_a_phone_shows_it_without_scrolling_sideways(address):
    with browser(width=390, height=844) as phone:
        phone.get(address)
        assert phone.execute_script("return document.documentElement.scrollWidth") <= 390
        assert console_errors(phone) == []
