// New facts: the table of what a discovery found.

import { element, number, percent } from "/static/elements.js";

const COLUMNS = [["#", "rank"], ["fact"], ["confidence", "confidence"], ["rank of tail", "side"], ["rank of head", "side"], ["margin", "side"]];

export function newFactsNote(facts, { top }) {
  if (!facts.length) return "No new fact was found: every likely one is known.";
  const all = facts.length < Number(top);
  return all ? `All ${facts.length} that were found.` : `The best ${facts.length}; more with a larger number of answers.`;
}

export function newFactsHead() {
  return element("tr", {}, ...COLUMNS.map(([text, kind]) => element("th", { scope: "col", class: kind, text })));
}

// `check` returns the link that checks a fact.
export function newFactRow(fact, place, check) {
  const shown = ["head", "relation", "tail"].map((part) => fact[`${part}_name`] ?? fact[part]);
  const values = [["rank of tail", fact.tail_rank.toLocaleString("en")], ["rank of head", fact.head_rank.toLocaleString("en")],
    ["margin", number(fact.margin)]];
  return element("tr", {},
    element("td", { class: "rank", text: String(place) }),
    element("th", { scope: "row", class: "answer" }, check(fact, shown.join(" → "))),
    element("td", { class: "confidence", text: fact.confidence === null ? "–" : percent(fact.confidence), "data-name": "confidence" }),
    ...values.map(([name, text]) => element("td", { class: "side", text, "data-name": name })),
  );
}
