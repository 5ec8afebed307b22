"""The page's questions about two entities, in a real browser: the relations between them, and the truth of a fact."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from tests.browser import browser, console_errors, needs_browser
from tests.serve.answers import SCRIPT, Alphabetical

pytestmark = needs_browser
pytest.importorskip("selenium")
pytest.importorskip("uvicorn")

from relens.serve.guard import Limits  # noqa: E402
from tests.serve.serving import serving  # noqa: E402
from tests.serve.test_page import asked, one, shows, suggestions, texts, until  # noqa: E402


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as driver:
        yield driver


@pytest.fixture(autouse=True)
def quiet(driver: Any) -> Iterator[None]:
    """No page may write to the console."""
    yield
    assert console_errors(driver) == []


def shown(driver: Any) -> list[str]:
    """Return the ids of the visible text fields."""
    return [field.get_attribute("id") for field in driver.find_elements("css selector", "input:not([type])")
            if field.is_displayed()]  # fmt: skip


def test_the_relations_between_two_entities_are_ranked(driver, address):
    driver.get(f"{address}?head=ada&tail=Bob")
    shows(driver, "ada → ? → Bob")
    assert texts(driver, "thead th") == ["#", "relation", "transe", "complex"]
    assert texts(driver, "tbody .answer a") == sorted([SCRIPT, "likes", "lives in"])
    assert texts(driver, ".is-known a") == ["likes"]
    assert one(driver, "#result-note").text.startswith("The best 2 of 2 new relations; 1 known.")
    assert shown(driver) == ["entity", "other"]
    one(driver, "#known").click()
    until(driver, lambda d: texts(d, "tbody .answer a") == sorted([SCRIPT, "lives in"]))
    assert asked(driver) == {"head": ["ada"], "tail": ["Bob"], "known": ["drop"]}
    assert driver.execute_script("return document.querySelectorAll('main img, main script').length") == 0


def test_a_fact_is_checked_and_leads_to_the_other_questions(driver, address):
    driver.get(f"{address}?head=ada&relation=likes&tail=cleo")
    until(driver, lambda d: texts(d, "#verdict .wrong") == ["false"])
    assert texts(driver, "#fact dt") == ["verdict", "probability", "rank of the tail", "rank of the head", "score"]
    assert texts(driver, "#fact dd > span:first-child")[1:4] == ["25 %", "8", "7"]
    assert one(driver, "#result-note").text == "No split has this fact."
    assert not one(driver, "#answers").is_displayed()
    assert shown(driver) == ["entity", "relation", "other"]
    driver.find_element("link text", "all relations").click()
    shows(driver, "ada → ? → cleo")
    assert driver.switch_to.active_element.get_attribute("id") == "result-title"
    driver.find_element("link text", "lives in").click()
    shows(driver, "ada → lives in → cleo")
    assert texts(driver, "#trail a") == ["ada → likes → cleo", "ada → ? → cleo"]
    driver.back()
    shows(driver, "ada → ? → cleo")
    driver.back()
    shows(driver, "ada → likes → cleo")
    driver.find_element("link text", "all heads").click()
    shows(driver, "? → likes → cleo")
    driver.get(f"{address}?head=ada&relation=likes&tail=Bob")
    until(driver, lambda d: texts(d, "#verdict .known") == ["true"])
    assert one(driver, "#result-note").text == "A known fact: it is in train."
    assert texts(driver, "#fact dd > span:first-child")[1] == "–"


def test_a_fact_can_be_checked_with_the_keyboard_only(driver, address):
    from selenium.webdriver.common.keys import Keys

    driver.get(f"{address}?tail=Bob&relation=likes")
    shows(driver, "? → likes → Bob")
    one(driver, "input[value=head]").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert one(driver, "input[value=truth]").is_selected()
    assert [one(driver, f"#{field}").get_property("value") for field in shown(driver)] == ["", "likes", "Bob"]
    one(driver, "#entity").send_keys("ad")
    until(driver, lambda d: suggestions(d) == ["ada"])
    one(driver, "#entity").send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    shows(driver, "ada → likes → Bob")
    assert asked(driver) == {"head": ["ada"], "relation": ["likes"], "tail": ["Bob"]}
    one(driver, "#other").clear()
    one(driver, "button.ask").click()
    assert one(driver, "#message").text == "Name a tail first: begin to type, and choose from the list."
    assert driver.switch_to.active_element.get_attribute("id") == "other"


def test_an_unknown_tail_offers_the_closest_one(driver, address):
    driver.get(f"{address}?head=ada&tail=Bo")
    until(driver, lambda d: "unknown entity 'Bo'" in one(d, "#message").text)
    assert [entry for entry in console_errors(driver) if "404" not in entry] == []
    driver.find_element("link text", "Bob").click()
    shows(driver, "ada → ? → Bob")


def test_a_fact_has_its_score_before_there_are_thresholds(driver):
    ensemble = Alphabetical(preparing=Event())
    with serving(ensemble, Limits(seconds=2)) as found:
        driver.get(f"{found}?head=ada&relation=likes&tail=Bob")
        until(driver, lambda d: texts(d, "#fact dd > span:first-child")[:2] == ["…", "–"])
        until(driver, lambda d: "thresholds of verdicts are being fitted" in "".join(texts(d, "#verdict")))
        ensemble.preparing.set()
    assert all("503" in entry for entry in console_errors(driver))


def test_two_entities_fit_a_phone(address):
    with browser(width=390, height=800) as driver:
        for path in ("?head=ada&relation=likes&tail=cleo", "?head=ada&tail=Bob", "?new=ada"):
            driver.get(address + path)
            until(driver, lambda d: texts(d, "#verdict .wrong, tbody tr"))
            assert driver.execute_script("return document.documentElement.scrollWidth") == 390
            assert console_errors(driver) == []


def test_new_facts_of_an_entity_or_a_relation_are_listed_and_lead_to_a_check(driver, address):
    driver.get(f"{address}?new=ada")
    shows(driver, "New facts: ada")
    assert texts(driver, "thead th") == ["#", "fact", "confidence", "rank of tail", "rank of head", "margin"]
    assert len(texts(driver, "tbody tr")) == 10
    assert texts(driver, "tbody tr:first-child td")[1:] == ["50 %", "1", "2", "1.5"]
    assert one(driver, "#result-note").text == "The best 10; more with a larger number of answers."
    assert shown(driver) == ["entity", "relation"]
    assert not one(driver, "#known").is_displayed()
    assert driver.execute_script("return document.querySelectorAll('main img, main script').length") == 0
    first = texts(driver, "tbody .answer a")[0]
    one(driver, "tbody .answer a").click()
    shows(driver, first)
    assert driver.switch_to.active_element.get_attribute("id") == "result-title"
    assert texts(driver, "#trail a") == ["New facts: ada"]
    driver.back()
    shows(driver, "New facts: ada")
    driver.get(f"{address}?new=&relation=likes&top=25")
    shows(driver, "New facts: likes")
    assert not one(driver, "#facts").is_displayed()
    assert all(" → likes → " in fact for fact in texts(driver, "tbody .answer a"))
    assert asked(driver) == {"relation": ["likes"], "top": ["25"]}  # an empty parameter is not parsed


def test_new_facts_are_found_with_the_keyboard_and_from_an_entity(driver, address):
    from selenium.webdriver.common.keys import Keys

    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    driver.find_element("link text", "new facts").click()
    shows(driver, "New facts: ada")
    driver.get(address)
    one(driver, "input[value=truth]").send_keys(Keys.ARROW_RIGHT)
    assert one(driver, "input[value=new]").is_selected()
    one(driver, "button.ask").click()
    assert (
        one(driver, "#message").text == "Name an entity or a relation first: begin to type, and choose from the list."
    )
    assert driver.switch_to.active_element.get_attribute("id") == "entity"
    one(driver, "#entity").send_keys("bo")
    until(driver, lambda d: suggestions(d) == ["Bob"])
    one(driver, "#entity").send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    shows(driver, "New facts: Bob")


def test_too_many_queries_are_said_and_unknown_names_offer_the_closest(driver):
    with serving(Alphabetical(queries=3000)) as found:
        driver.get(f"{found}?new=&relation=likes")
        until(driver, lambda d: "a request may take 2,000" in one(d, "#message").text)
        driver.get(f"{found}?new=adda")
        until(driver, lambda d: "unknown entity 'adda'" in one(d, "#message").text)
    assert all("422" in entry or "404" in entry for entry in console_errors(driver))
