"""The page in a real browser: ask, walk, go back, share a link; labels stay text."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from relens.data.dataset import Dataset
from relens.visible import visible
from tests.browser import browser, console_errors, needs_browser
from tests.hostile import HOSTILE as ACTING
from tests.hostile import raw
from tests.serve.answers import HOSTILE, PEOPLE, SCRIPT, Alphabetical

pytestmark = needs_browser
pytest.importorskip("selenium")
pytest.importorskip("uvicorn")

from tests.serve.serving import serving  # noqa: E402


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as driver:
        yield driver


@pytest.fixture(autouse=True)
def quiet(driver: Any) -> Iterator[None]:
    """No page may write to the console."""
    yield
    assert console_errors(driver) == []


def until(driver: Any, condition: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 10, poll_frequency=0.02).until(condition)


def shows(driver: Any, title: str) -> None:
    """Wait until the answers to a question are there."""
    script = "const r = document.getElementById('result'); return r.hidden || r.matches('.stale') ? '' : r.innerText"
    until(driver, lambda d: d.execute_script(script).startswith(title + "\n"))


def one(driver: Any, selector: str) -> Any:
    return driver.find_element("css selector", selector)


def texts(driver: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    return driver.execute_script(script, selector)


def asked(driver: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(driver.current_url).query)


def suggestions(driver: Any) -> list[str]:
    script = """return [...document.querySelectorAll('[role=listbox]:not([hidden]) [role=option]')]
        .map(e => e.firstChild.data)"""
    return driver.execute_script(script)


def test_the_page_introduces_what_it_serves_and_offers_questions(driver, address):
    driver.get(address)
    until(driver, lambda d: "9 entities, 3 relations, 3 models" in one(d, "#served").text)
    until(driver, lambda d: "a/../b → likes → ?" in texts(d, "#examples a"))
    driver.find_element("link text", "a/../b → likes → ?").click()
    shows(driver, "a/../b → likes → ?")
    assert asked(driver) == {"head": ["a/../b"], "relation": ["likes"]}


def test_a_question_can_be_asked_with_the_keyboard_only(driver, address):
    from selenium.webdriver.common.keys import Keys

    driver.get(address)
    entity = one(driver, "#entity")
    entity.send_keys("a")
    until(driver, lambda d: suggestions(d) == ["a/../b", "ada", "dan"])
    entity.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert entity.get_attribute("aria-activedescendant") == "suggestions-1-1"
    entity.send_keys(Keys.ENTER)
    relation = driver.switch_to.active_element
    assert (entity.get_property("value"), relation.get_attribute("id")) == ("ada", "relation")
    relation.send_keys("I")
    until(driver, lambda d: suggestions(d) == [SCRIPT, "likes", "lives in"])
    relation.send_keys("k")
    until(driver, lambda d: suggestions(d) == ["likes"])
    relation.send_keys(Keys.ESCAPE)
    assert suggestions(driver) == []
    relation.send_keys(Keys.ARROW_DOWN)
    until(driver, lambda d: suggestions(d) == ["likes"])
    relation.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    shows(driver, "ada → likes → ?")
    assert asked(driver) == {"head": ["ada"], "relation": ["likes"]}


def test_answers_show_votes_confidence_and_known_facts(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    assert texts(driver, "thead th") == [
        "#", "answer", "place", "confidence", "transe 60 %", "rotate 30 %", "complex 10 %",
    ]  # fmt: skip
    assert texts(driver, "tbody .answer a") == sorted([*PEOPLE, "Oslo"])
    assert texts(driver, ".is-known a") == ["Bob"]
    assert texts(driver, ".known") == ["known: train"]
    assert "if as many are missing as the validation split has" in one(driver, "#reading").text
    _, known, new, *_ = driver.find_elements("css selector", "tbody tr:not(.why)")
    assert [cell.text for cell in known.find_elements("css selector", "td")] == ["2", "–", "–", "2", "3", "4"]
    assert [cell.text for cell in new.find_elements("css selector", "td")] == ["2", "2", "25 %", "2", "3", "4"]
    bars = [bar.size for bar in new.find_elements("css selector", ".bar")]
    assert [bar["width"] for bar in bars] == sorted((bar["width"] for bar in bars), reverse=True)
    assert [bar["height"] for bar in bars] == sorted((bar["height"] for bar in bars), reverse=True)
    assert bars[0]["width"] > bars[2]["width"]
    assert bars[0]["height"] > bars[2]["height"]


def test_an_answer_shows_why(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    buttons = {
        button.get_attribute("aria-label"): button for button in driver.find_elements("css selector", ".why-button")
    }
    assert not any(row.is_displayed() for row in driver.find_elements("css selector", "tr.why"))
    buttons["why cleo?"].click()
    until(driver, lambda d: texts(d, "tr.why .path") == [f"ada ←[likes]– {HOSTILE} –[likes]→ cleo"])
    assert texts(driver, "tr.why .weight .number") == ["0.63"]
    assert buttons["why cleo?"].get_attribute("aria-expanded") == "true"
    buttons["why Oslo?"].click()
    until(driver, lambda d: [text for text in texts(d, "tr.why td") if text.startswith("No path is short enough")])
    buttons["why cleo?"].click()
    assert not one(driver, "tr.why .path").is_displayed()
    assert driver.execute_script("return document.querySelectorAll('main img, main script').length") == 0


def test_known_facts_are_counted_apart_and_their_ranks_explained(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    assert texts(driver, "tbody .rank") == ["1", "2", "2", "3", "4", "5", "6", "7", "8"]
    assert one(driver, "#result-note").text == (
        "The best 8 of 8 new candidates, and 1 known fact, marked. A known fact is ranked as if the other known ones "
        "were not there, so its rank can be that of a new answer, too."
    )
    driver.get(f"{address}?head=Oslo&relation=likes")
    shows(driver, "Oslo → likes → ?")
    assert one(driver, "#result-note").text == "The best 9 of 9 new candidates; no known facts."


def test_heads_are_asked_for_and_a_model_without_weight_has_no_vote(driver, address):
    driver.get(f"{address}?tail=Bob&relation=likes&known=drop&top=25")
    shows(driver, "? → likes → Bob")
    assert "ada" not in texts(driver, "tbody .answer a")
    assert one(driver, "#result-note").text == "The best 8 of 8 new candidates; known facts are left out."
    assert texts(driver, "thead th")[3] == "confidence"  # even where there is none to show
    assert texts(driver, "tbody tr:first-child td") == ["1", "1", "–", "–", "2", "3"]
    assert one(driver, "label[for=entity]").text == "Tail"
    assert not one(driver, "#known").is_selected()
    one(driver, "#known").click()
    until(driver, lambda d: "ada" in texts(d, "tbody .answer a"))
    assert asked(driver) == {"tail": ["Bob"], "relation": ["likes"], "top": ["25"]}


def test_an_answer_becomes_the_new_head_and_back_goes_back(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    driver.find_element("link text", "cleo").click()
    shows(driver, "cleo → likes → ?")
    assert driver.switch_to.active_element.get_attribute("id") == "result-title"
    assert texts(driver, "#trail a") == ["ada → likes → ?"]
    driver.find_element("link text", "dan").click()
    shows(driver, "dan → likes → ?")
    assert texts(driver, "#trail a") == ["ada → likes → ?", "cleo → likes → ?"]
    shared = driver.current_url
    driver.back()
    shows(driver, "cleo → likes → ?")
    assert one(driver, "#entity").get_property("value") == "cleo"
    driver.back()
    shows(driver, "ada → likes → ?")
    assert not one(driver, "#trail").is_displayed()
    driver.forward()
    shows(driver, "cleo → likes → ?")
    driver.get(shared)
    shows(driver, "dan → likes → ?")
    driver.find_element("link text", "cleo → likes → ?").click()
    shows(driver, "cleo → likes → ?")
    assert texts(driver, "#trail a") == ["ada → likes → ?"]


def test_an_entity_that_is_never_a_head_is_asked_about_as_a_tail(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    driver.find_element("link text", "Oslo").click()
    shows(driver, "? → lives in → Oslo")
    assert texts(driver, ".chip[aria-current]") == ["lives in 8"]


def test_labels_that_look_like_markup_stay_text(driver, address):
    driver.get(f"{address}?head=ada&relation=likes")
    shows(driver, "ada → likes → ?")
    driver.find_element("link text", HOSTILE).click()
    shows(driver, f"{HOSTILE} → likes → ?")
    one(driver, "#entity").clear()
    one(driver, "#entity").send_keys("<im")
    until(driver, lambda d: suggestions(d) == [HOSTILE])
    driver.get(f"{address}?head=ada&relation=%3C/script%3E%3Cscript%3Edocument.title%3D'broken%20in'%3C/script%3E")
    shows(driver, f"ada → {SCRIPT} → ?")
    assert driver.execute_script("return document.querySelectorAll('main img, main script').length") == 0
    assert "broken in" not in driver.title or driver.title.startswith("ada → </script>")


@pytest.fixture(scope="module")
def controls() -> Iterator[str]:
    """Where a graph is served whose names hold control characters."""
    facts = [(head, relation, tail) for relation in ACTING for head, tail in pairwise((*ACTING, "ada", "bob"))]
    graph = Dataset.from_labels("acting", train=facts[:-4], valid=facts[-4:-2], test=facts[-2:])
    with serving(Alphabetical(graph)) as found:
        yield found


def everything(driver: Any) -> str:
    """Return all texts of a page that a person can meet, also in attributes."""
    return driver.execute_script(
        """const attributes = ["title", "data-name", "aria-label"];
        const said = [...document.querySelectorAll("*")].flatMap((e) => attributes.map((name) => e.getAttribute(name)));
        return [document.title, document.body.textContent, ...said].join(" ");"""
    )


def test_control_characters_are_shown_as_escapes(driver, controls):
    driver.get(controls)
    until(driver, lambda d: texts(d, "#examples a"))
    assert raw(everything(driver)) == []
    asked_for = {"head": ACTING[0], "relation": ACTING[4], "step": f"tail\t{ACTING[3]}\t{ACTING[1]}"}
    driver.get(f"{controls}?{urlencode(asked_for)}")
    shows(driver, rf"clear\x1b[2J\x1b[H → {visible(ACTING[4])} → ?")
    one(driver, ".why-button").click()
    until(driver, lambda d: texts(d, ".paths"))
    one(driver, "#entity").clear()
    one(driver, "#entity").send_keys("bi")
    until(driver, lambda d: suggestions(d) == [visible(ACTING[4])])
    assert raw(everything(driver)) == []
    assert {visible(label) for label in ACTING if label < "t"} <= set(texts(driver, "th.answer > a"))
    driver.find_element("link text", r"title\x1b]0;owned\x07").click()
    shows(driver, rf"title\x1b]0;owned\x07 → {visible(ACTING[4])} → ?")
    assert asked(driver)["head"] == [ACTING[1]]
    driver.get(f"{controls}?{urlencode({'head': 'clear' + chr(27), 'relation': ACTING[0]})}")
    until(driver, lambda d: r"unknown entity 'clear\x1b'" in one(d, "#message").text)
    assert raw(everything(driver)) == []
    assert [entry for entry in console_errors(driver) if "404" not in entry] == []


def test_escapes_are_those_of_the_terminal(driver, controls):
    """The page spells every character as ``relens.visible`` does."""
    driver.get(controls)
    codes = [*range(0x2100), *range(0xD7F0, 0xD810), *range(0xFFE0, 0x10010), *range(0xE0000, 0xE0080)]
    script = """const [codes, done] = arguments;
    import("/static/visible.js").then(({ visible }) => done(codes.map((code) => {
      const shown = visible(String.fromCodePoint(code));
      return shown.startsWith("\\\\") ? shown : "";
    })));"""
    found = driver.execute_async_script(script, codes)
    expected = [visible(chr(code)) if visible(chr(code)) != chr(code) else "" for code in codes]
    expected[ord("\\")] = "\\"
    assert found == expected


def test_an_unknown_name_offers_the_closest_one(driver, address):
    driver.get(f"{address}?head=adda&relation=likes&step=tail%09Bob%09likes")
    until(driver, lambda d: "unknown entity 'adda'" in one(d, "#message").text)
    # A browser reports every answer with status 404.
    assert [entry for entry in console_errors(driver) if "404" not in entry] == []
    driver.find_element("link text", "ada").click()
    shows(driver, "ada → likes → ?")
    assert not one(driver, "#message").is_displayed()
    assert texts(driver, "#trail a") == ["Bob → likes → ?"]


def test_an_incomplete_question_gets_an_explanation(driver, address):
    from selenium.webdriver.common.keys import Keys

    driver.get(f"{address}?head=adda&relation=likes")
    until(driver, lambda d: "unknown entity 'adda'" in one(d, "#message").text)
    assert [entry for entry in console_errors(driver) if "404" not in entry] == []
    one(driver, "#entity").clear()
    one(driver, "button.ask").click()
    message = "Name a head first: begin to type, and choose from the list."
    assert one(driver, "#message").text == message
    assert driver.switch_to.active_element.get_attribute("id") == "entity"
    one(driver, "#relation").clear()
    one(driver, "input[value=head]").click()
    one(driver, "button.ask").click()
    assert one(driver, "#message").text == message.replace("a head", "a tail and a relation")
    one(driver, "#entity").send_keys("Bo")
    until(driver, lambda d: suggestions(d) == ["Bob"])
    one(driver, "#entity").send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert not one(driver, "#message").is_displayed()  # what it asked for is there now
    assert driver.switch_to.active_element.get_attribute("id") == "relation"


def test_the_list_of_requests_is_written_without_help_from_elsewhere(driver, address):
    driver.get(f"{address}docs")
    until(driver, lambda d: len(texts(d, ".request h2")) == 14)
    assert "POST /api/predict" in texts(driver, ".request h2")
    loaded = "return performance.getEntriesByType('resource').map(e => e.name)"
    assert all(name.startswith(address) for name in driver.execute_script(loaded))


def test_nothing_is_wider_than_a_phone(address):
    with browser(width=390, height=800) as driver:
        for path in ("", "?head=ada&relation=likes", "docs"):
            driver.get(address + path)
            until(driver, lambda d: texts(d, ".request, tbody tr, #examples a"))
            for button in driver.find_elements("css selector", ".why-button")[:1]:
                button.click()
                until(driver, lambda d: texts(d, "tr.why .path"))
            assert driver.execute_script("return document.documentElement.scrollWidth") == 390
            assert console_errors(driver) == []


# ---- a service with a token ------------------------------------------------------------------------------------------

TOKEN = "a+token/that~nobody._guesses-at-all=="
STORED = "return [sessionStorage.length, localStorage.length, document.cookie, location.href]"


@pytest.fixture
def closed(driver: Any) -> Iterator[str]:
    """The address of a service with a token, which the driver does not know yet."""
    with serving(Alphabetical(), token=TOKEN) as address:
        yield address
        assert all("401" in entry for entry in console_errors(driver))


def test_the_token_comes_with_the_fragment_and_leaves_the_address(driver, closed):
    driver.get(f"{closed}?head=ada&relation=likes#token={TOKEN}")
    shows(driver, "ada → likes → ?")
    assert driver.execute_script(STORED) == [1, 0, "", f"{closed}?head=ada&relation=likes"]
    assert not driver.find_elements("css selector", "#token")
    driver.find_element("link text", "cleo").click()
    shows(driver, "cleo → likes → ?")
    assert TOKEN not in driver.page_source
    driver.back()
    shows(driver, "ada → likes → ?")
    driver.get(f"{closed}docs")
    until(driver, lambda d: texts(d, ".request h2"))
    assert console_errors(driver) == []


def test_the_page_asks_for_the_token(driver, closed):
    for path in ("?head=ada&relation=likes", "docs"):
        driver.get(closed + path)
        driver.execute_script("sessionStorage.clear()")
        driver.get(closed + path)
        until(driver, lambda d: d.find_elements("css selector", "#token"))
        assert one(driver, "label[for=token]").text == "This service needs a token:"
        assert driver.switch_to.active_element.get_attribute("id") == "token"
        assert one(driver, "#token").get_attribute("type") == "password"
        assert not one(driver, "main").is_displayed()
        one(driver, "#token").send_keys("é another token\n")
        until(driver, lambda d: texts(d, "label[for=token]") == ["This is not the token of this service. Token:"])
        one(driver, "#token").send_keys(f"{TOKEN}\n")
        until(driver, lambda d: texts(d, ".request h2, #result-title"))
        if path != "docs":
            shows(driver, "ada → likes → ?")
        assert driver.current_url == closed + path


def test_a_fragment_with_another_token_is_no_way_in(driver, closed):
    for token in ("", "wrong", "%zz", "<img src=x>"):
        driver.get(f"{closed}docs")
        driver.execute_script("sessionStorage.clear()")
        driver.get(f"{closed}#token={token}")
        until(driver, lambda d: d.find_elements("css selector", "#token"))
        assert driver.current_url == closed
    driver.execute_script("location.hash = 'token=' + arguments[0]", TOKEN)
    until(driver, lambda d: "9 entities" in one(d, "#served").text)
    assert driver.current_url == closed
