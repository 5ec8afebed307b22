// The page: the question is in the address, so that "back" works and a link can be shared.

import { Combobox } from "/static/combobox.js";
import { newFactRow, newFactsHead, newFactsNote } from "/static/discover.js";
import { at, element, number, percent, write } from "/static/elements.js";
import { ask } from "/static/requests.js";
import { visible } from "/static/visible.js";

const TRAIL_LIMIT = 8;
const SUGGESTIONS = 12;
const RELATIONS_SHOWN = 200;
const EXAMPLES = 6;
const CONFIDENCE = "confidence";
const NO_PATHS = "No path is short enough, or no model that follows paths has a weight here.";
const sides = [...document.getElementsByName("side")];
let relations = [];
let members = [];
let explains = false;
let turn = 0;
let shownSide = "tail";

// ---- the question and the address ----------------------------------------------------------------------------

// A question: {side: "tail" | "head" | "relation" | "truth" | "new" (what is asked for), anchor, relation, other, top,
// known, trail: [{side, anchor, relation, other}]}. With two entities, the anchor is the head and the other one is the
// tail. New facts are those of the anchor, of the relation, or of both.
function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  let side = parameters.has("tail") ? "head" : "tail";
  if (parameters.has("head") && parameters.has("tail")) side = parameters.has("relation") ? "truth" : "relation";
  if (parameters.has("new")) side = "new";
  const trail = parameters.getAll("step").map((step) => step.split("\t"));
  return {
    side,
    anchor: parameters.get(nameOf(side)) ?? "",
    other: (hasTwo(side) && parameters.get("tail")) || "",
    relation: parameters.get("relation") ?? "",
    top: parameters.get("top") ?? "10",
    known: parameters.get("known") ?? "mark",
    trail: trail.filter((parts) => parts.length === 3 || parts.length === 4).slice(-TRAIL_LIMIT)
      .map(([from, anchor, relation, other = ""]) => ({ side: from, anchor, relation, other })),
  };
}

const hasTwo = (side) => side === "relation" || side === "truth";
// The parameter that holds the anchor.
const nameOf = (side) => ({ head: "tail", new: "new" })[side] ?? "head";
const isComplete = ({ side, anchor, relation, other }) =>
  side === "new" ? Boolean(anchor || relation) : Boolean(anchor && (relation || side === "relation") && (other || !hasTwo(side)));

function toAddress({ side, anchor, relation, other, top, known, trail }) {
  const parameters = new URLSearchParams();
  if (anchor || side === "new") parameters.set(nameOf(side), anchor);
  if (hasTwo(side) && other) parameters.set("tail", other);
  if (relation) parameters.set("relation", relation);
  if (top !== "10") parameters.set("top", top);
  if (known !== "mark") parameters.set("known", known);
  for (const step of trail.slice(-TRAIL_LIMIT)) {
    const parts = [step.side, step.anchor, step.relation, ...(step.other ? [step.other] : [])];
    parameters.append("step", parts.join("\t"));
  }
  return parameters.size ? `/?${parameters}` : "/";
}

const chosenSide = () => sides.find((radio) => radio.checked).value;

function fromForm() {
  const { trail } = fromAddress();
  const side = chosenSide();
  return {
    side,
    anchor: at("entity").value.trim(),
    relation: side === "relation" ? "" : at("relation").value.trim(),
    other: hasTwo(side) ? at("other").value.trim() : "",
    top: at("top").value,
    known: at("known").checked ? "mark" : "drop",
    trail,
  };
}

function toForm({ side, anchor, relation, other, top, known }) {
  for (const radio of sides) radio.checked = radio.value === side;
  at("entity").value = anchor;
  at("relation").value = relation;
  at("other").value = other;
  at("top").value = top;
  if (!at("top").value) at("top").value = "10";
  at("known").checked = known !== "drop";
  fitTheForm();
}

// Show the fields of the chosen kind of question.
function fitTheForm() {
  const side = chosenSide();
  document.querySelector("label[for=entity]").textContent = { head: "Tail", new: "Entity, or any" }[side] ?? "Head";
  document.querySelector("label[for=relation]").textContent = side === "new" ? "Relation, or any" : "Relation";
  at("other-field").hidden = !hasTwo(side);
  at("relation-field").hidden = side === "relation";
  at("top-field").hidden = side === "truth";
  at("known-field").hidden = side === "truth" || side === "new";
  shownSide = side;
}

// An entity stays what it is: the tail of a question for heads moves to the second field if there is one, and back.
function changeSide() {
  const side = chosenSide();
  const [from, to] = shownSide === "head" ? ["entity", "other"] : ["other", "entity"];
  if (hasTwo(side) !== hasTwo(shownSide) && (side === "head" || shownSide === "head")) {
    at(to).value = at(from).value;
    at(from).value = "";
  }
  fitTheForm();
}

function go(question) {
  const address = toAddress(question);
  if (address !== location.pathname + location.search) history.pushState(null, "", address);
  return show();
}

// ---- showing -------------------------------------------------------------------------------------------------

async function show() {
  const mine = ++turn;
  const question = fromAddress();
  toForm(question);
  showTrail(question);
  at("message").hidden = true;
  at("welcome").hidden = Boolean(question.anchor || question.relation);
  if (!question.anchor) at("facts").hidden = true;
  if (!isComplete(question)) at("result").hidden = true;
  const asks = question.anchor || isComplete(question);
  document.title = asks ? visible(`${sentence(question)} · relens`) : "relens";
  if (!asks) return;
  at("result").classList.add("stale");
  const slow = setTimeout(() => (at("status").textContent = "Asking the models …"), 300);
  try {
    if (hasTwo(question.side)) return await showTwo(question, () => mine === turn);
    if (question.side === "new") return await showNew(question, () => mine === turn);
    const wanted = [ask("/api/entity", { label: question.anchor })];
    if (question.relation) wanted.push(ask("/api/predict", toParameters(question)));
    const [facts, prediction] = await Promise.all(wanted);
    if (mine !== turn) return;
    showFacts(facts, question);
    if (prediction) showPrediction(prediction, question);
  } catch (error) {
    if (mine === turn) showError(error, question);
  } finally {
    clearTimeout(slow);
    if (mine === turn) {
      at("status").textContent = "";
      at("result").classList.remove("stale");
    }
  }
}

function toParameters({ side, anchor, relation, top, known }) {
  return { [side === "tail" ? "head" : "tail"]: anchor, relation, top, known };
}

function sentence({ side, anchor, relation, other }) {
  const middle = relation || "…";
  if (side === "new") return `New facts: ${[anchor, relation].filter(Boolean).join(" · ")}`;
  if (side === "relation") return `${anchor} → ? → ${other}`;
  if (side === "truth") return `${anchor} → ${middle} → ${other}`;
  return side === "tail" ? `${anchor} → ${middle} → ?` : `? → ${middle} → ${anchor}`;
}

// A link that the page follows itself; a new tab works too.
function step(question, text, attributes = {}) {
  const link = element("a", { href: toAddress(question), text, ...attributes });
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    await go(question);
    if (!at("result").hidden) at("result-title").focus();
  });
  return link;
}

function showTrail(question) {
  const list = element("ol");
  question.trail.forEach((past, place) => {
    const back = { ...question, ...past, trail: question.trail.slice(0, place) };
    list.append(element("li", {}, step(back, sentence(past))));
  });
  at("trail").replaceChildren(list);
  at("trail").hidden = question.trail.length === 0;
}

function showError(error, question) {
  at("result").hidden = at("facts").hidden = true;
  const known = new Set(relations.flatMap(({ label, name }) => [label, name ?? label]));
  const links = (error.closest ?? []).map((label) => {
    const wrongRelation = question.relation && !known.has(question.relation);
    return step({ ...question, [error.field ?? (wrongRelation ? "relation" : "anchor")]: label }, label, { class: "chip" });
  });
  say(error.message, ...links);
}

function say(text, ...links) {
  at("message").replaceChildren(element("span", { text }), ...links);
  at("message").hidden = false;
}

// What the graph says about the entity: each relation it occurs with is a question to ask next.
function showFacts(facts, question) {
  write("facts-title", `${facts.name ?? facts.label} in the graph`);
  const fresh = step({ ...question, side: "new", relation: "", other: "" }, "new facts", {
    class: "chip", "aria-current": question.side === "new" ? "true" : undefined,
  });
  const lines = [["tail", "as head", facts.as_head], ["head", "as tail", facts.as_tail]].map(([side, title, counts]) => {
    const chips = counts.slice(0, RELATIONS_SHOWN).map(({ relation, name, count }) => {
      const current = question.side === side && question.relation === relation ? "true" : undefined;
      const next = { ...question, side, relation, other: "" };
      const chip = step(next, `${name ?? relation} `, { class: "chip", "aria-current": current });
      chip.append(element("small", { text: count.toLocaleString("en") }));
      return chip;
    });
    const none = element("span", { class: "quiet", text: "never" });
    return element("div", { class: "chips" }, element("span", { class: "quiet", text: title }), ...(chips.length ? chips : [none]));
  });
  at("facts-list").replaceChildren(element("div", { class: "chips" }, element("span", { class: "quiet", text: "missing" }), fresh), ...lines);
  at("facts").hidden = false;
}

function showPrediction(prediction, question) {
  const { anchor, name, relation, relation_name, direction, candidates, answers, weights, notes } = prediction;
  const shown = { side: direction, anchor: name ?? anchor, relation: relation_name ?? relation };
  write("result-title", sentence(shown));
  const models = Object.keys(weights);
  const remarks = notes.map((text) => element("span", { class: "remark", text: `Note: ${text}.` }));
  at("result-note").replaceChildren(counted(answers, prediction, question.known === "drop"), ...remarks);
  at("answers").tHead.replaceChildren(head(models, weights));
  at("answers").tBodies[0].replaceChildren(
    ...answers.flatMap((answer) => row(answer, { question, models, weights, candidates })),
  );
  reveal(answers.length ? ["answers", "reading"] : []);
}

// Show the result with some of its parts.
function reveal(parts) {
  for (const part of ["answers", "reading", "relation-reading", "fact", "fact-reading", "new-reading"]) at(part).hidden = !parts.includes(part);
  at("result").hidden = false;
}

// ---- new facts -----------------------------------------------------------------------------------------------

async function showNew(question, isCurrent) {
  const { anchor, relation, top } = question;
  const wanted = [
    anchor ? ask("/api/entity", { label: anchor }) : null,
    isComplete(question) ? ask("/api/discover", { ...(anchor && { entity: anchor }), ...(relation && { relation }), top }) : null,
  ];
  const [entity, found] = await Promise.all(wanted);
  if (!isCurrent()) return;
  if (entity) showFacts(entity, question);
  if (!found) return;
  write("result-title", sentence(question));
  write("result-note", newFactsNote(found.facts, question));
  at("answers").tHead.replaceChildren(newFactsHead());
  const { side, trail } = question;
  const check = ({ head, relation: of, tail }, text) =>
    step({ ...question, side: "truth", anchor: head, relation: of, other: tail, trail: [...trail, { side, anchor, relation }] }, text);
  at("answers").tBodies[0].replaceChildren(...found.facts.map((fact, place) => newFactRow(fact, place + 1, check)));
  reveal(found.facts.length ? ["answers", "new-reading"] : []);
}

// ---- two entities: the relations between them, or the truth of a fact -----------------------------------------

async function showTwo(question, isCurrent) {
  const { side, anchor, relation, other, top, known } = question;
  const lookUp = (label, field) => ask("/api/entity", { label }).catch((error) => {
    throw Object.assign(error, { field });
  });
  const [facts] = await Promise.all([lookUp(anchor, "anchor"), lookUp(other, "other")]);
  if (!isCurrent()) return;
  showFacts(facts, question);
  if (side === "relation") {
    const found = await ask("/api/predict/relations", { head: anchor, tail: other, top, known });
    if (isCurrent()) showRelations(found, question);
    return;
  }
  const asked = { triples: [{ head: anchor, relation, tail: other }] };
  // The verdict may have to wait for thresholds, or have none: the score does not.
  const judged = ask("/api/classify", {}, asked).then(({ triples: [verdict] }) => verdict, (error) => ({ problem: error.message }));
  const { triples: [scored] } = await ask("/api/score", {}, asked);
  if (!isCurrent()) return;
  showFact(scored, question);
  const verdict = await judged;
  if (isCurrent()) showVerdict(verdict);
}

function showRelations({ head, head_name, tail, tail_name, candidates, scale, answers }, question) {
  write("result-title", sentence({ side: "relation", anchor: head_name ?? head, other: tail_name ?? tail }));
  const fresh = answers.filter((answer) => !answer.known).length;
  const known = question.known === "drop" ? "known ones are left out" : `${answers.length - fresh} known`;
  write("result-note", `The best ${fresh} of ${candidates.toLocaleString("en")} new relations; ${known}. ` +
    `Their scores are compared by: ${scale}.`);
  const voting = new Set(answers.flatMap(({ votes }) => votes.map(({ model }) => model)));
  const models = members.filter((model) => voting.has(model));
  const columns = [["#", "rank"], ["relation"], ...models.map((model) => [model, `vote model-${members.indexOf(model) % 8}`])];
  const cells = columns.map(([text, kind]) => element("th", { scope: "col", class: kind, text }));
  at("answers").tHead.replaceChildren(element("tr", {}, ...cells));
  const context = { weights: Object.fromEntries(models.map((model) => [model, 0])), candidates };
  at("answers").tBodies[0].replaceChildren(...answers.map((answer) => relationRow(answer, models, context, question)));
  reveal(answers.length ? ["answers", "relation-reading"] : []);
}

function relationRow(answer, models, context, question) {
  const { side, anchor, relation, other, trail } = question;
  const next = { ...question, side: "truth", relation: answer.relation, trail: [...trail, { side, anchor, relation, other }] };
  const cell = element("th", { scope: "row", class: "answer" }, step(next, answer.name ?? answer.relation));
  if (answer.name) cell.append(element("small", { class: "quiet", text: answer.relation }));
  if (answer.known) cell.append(element("span", { class: "known", text: `known: ${answer.known}` }));
  const votes = new Map(answer.votes.map((cast) => [cast.model, cast]));
  const silent = { ...answer, abstained: [] };
  const cells = models.map((model) => vote(votes.get(model), silent, model, members.indexOf(model), context));
  const rank = element("td", { class: "rank", text: answer.rank });
  return element("tr", { class: answer.known ? "is-known" : undefined }, rank, cell, ...cells);
}

function showFact(scored, question) {
  const { head, head_name, relation, relation_name, tail, tail_name, known } = scored;
  const shown = { side: "truth", anchor: head_name ?? head, relation: relation_name ?? relation, other: tail_name ?? tail };
  write("result-title", sentence(shown));
  write("result-note", known ? `A known fact: it is in ${known}.` : "No split has this fact.");
  const past = { side: "truth", anchor: head, relation, other: tail };
  const trail = [...question.trail, past];
  const all = (side, anchor, text) => step({ ...question, side, anchor, relation, other: "", trail }, text, { class: "chip" });
  const between = { ...question, side: "relation", anchor: head, relation: "", other: tail, trail };
  const rows = [
    ["verdict", "…"],
    ["probability", scored.probability === null ? "–" : percent(scored.probability)],
    ["rank of the tail", scored.tail_rank.toLocaleString("en"), all("tail", head, "all tails")],
    ["rank of the head", scored.head_rank.toLocaleString("en"), all("head", tail, "all heads")],
    ["score", number(scored.score), step(between, "all relations", { class: "chip" })],
  ];
  at("fact").replaceChildren(...rows.map(([name, text, ...links]) => {
    const value = element("dd", {}, element("span", { text }), ...links);
    if (name === "verdict") Object.assign(value, { id: "verdict" }).setAttribute("aria-live", "polite");
    return element("div", {}, element("dt", { text: name }), value);
  }));
  reveal(["fact", "fact-reading"]);
}

function showVerdict({ problem, true: holds, value, threshold, own }) {
  if (problem) {
    at("verdict").replaceChildren(element("span", { class: "quiet", text: problem }));
    return;
  }
  const reason = `value ${number(value)}, threshold ${number(threshold)}${own ? "" : " of all relations"}`;
  const said = element("span", { class: holds ? "known" : "wrong", text: holds ? "true" : "false" });
  at("verdict").replaceChildren(said, element("small", { class: "quiet", text: reason }));
}

// Known facts are no candidates: they are counted apart, and each is ranked among the candidates alone.
function counted(answers, { candidates, restriction }, dropped) {
  const known = answers.filter((answer) => answer.known).length;
  const fresh = answers.length - known;
  const best = `${fresh ? `The best ${fresh}` : "None"} of ${candidates.toLocaleString("en")} new candidates` +
    (restriction ? visible(` (${restriction})`) : "");
  if (dropped) return `${best}; known facts are left out.`;
  if (!known) return `${best}; no known facts.`;
  const facts = known === 1 ? "1 known fact" : `${known} known facts`;
  return `${best}, and ${facts}, marked. A known fact is ranked as if the other known ones were not there, ` +
    "so its rank can be that of a new answer, too.";
}

function head(models, weights) {
  const cells = [element("th", { scope: "col", class: "rank", text: "#" }), element("th", { scope: "col", text: "answer" })];
  cells.push(element("th", { scope: "col", class: "place", text: "place" }));
  cells.push(element("th", { scope: "col", class: "confidence", text: CONFIDENCE }));
  models.forEach((model, place) => {
    const share = element("span", { class: "share", text: percent(weights[model]) });
    cells.push(element("th", { scope: "col", class: `vote model-${place % 8}` }, element("span", { text: model }), " ", share));
  });
  return element("tr", {}, ...cells);
}

function row(answer, context) {
  const { question, models } = context;
  const cells = [element("td", { class: "rank", text: answer.rank }), element("th", { scope: "row", class: "answer" })];
  const link = walk(answer, question);
  cells[1].append(link);
  if (answer.name) cells[1].append(element("small", { class: "quiet", text: answer.entity }));
  if (answer.known) cells[1].append(element("span", { class: "known", text: `known: ${answer.known}` }));
  cells.push(element("td", { class: "place", text: answer.place ?? "–", "data-name": "place" }));
  const confidence = answer.confidence === null ? "–" : percent(answer.confidence);
  cells.push(element("td", { class: "confidence", text: confidence, "data-name": CONFIDENCE }));
  const votes = new Map(answer.votes.map((vote) => [vote.model, vote]));
  models.forEach((model, place) => cells.push(vote(votes.get(model), answer, model, place, context)));
  const shown = element("tr", { class: answer.known ? "is-known" : undefined }, ...cells);
  if (!explains) return [shown];
  const reasons = element("tr", { class: "why" }, element("td", { colspan: cells.length, "aria-live": "polite" }));
  reasons.hidden = true;
  cells[1].append(whyButton(answer, question, reasons));
  return [shown, reasons];
}

// ---- why -----------------------------------------------------------------------------------------------------

// A button that shows and hides the paths that carried the score of an answer; they are asked for once.
function whyButton(answer, { side, anchor, relation }, reasons) {
  const label = `why ${answer.name ?? answer.entity}?`;
  const attributes = { type: "button", class: "why-button", "aria-expanded": "false", "aria-label": label };
  const button = element("button", { text: "why?", ...attributes });
  const cell = reasons.firstChild;
  button.addEventListener("click", async () => {
    reasons.hidden = !reasons.hidden;
    button.setAttribute("aria-expanded", String(!reasons.hidden));
    if (reasons.hidden || cell.hasChildNodes()) return;
    cell.textContent = "Searching paths …";
    try {
      const given = side === "tail" ? "head" : "tail";
      const { paths } = await ask("/api/explain", { [given]: anchor, relation, answer: answer.entity });
      cell.replaceChildren(paths.length ? pathList(paths) : element("span", { class: "quiet", text: NO_PATHS }));
    } catch (error) {
      cell.replaceChildren(element("span", { class: "quiet", text: error.message }));
    }
  });
  return button;
}

function pathList(paths) {
  const most = Math.max(...paths.map(({ importance }) => importance));
  return element("ol", { class: "paths" }, ...paths.map((path) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * path.importance / most}%`;
    const title = `${path.model}: importance ${path.importance.toPrecision(3)}`;
    const scale = element("span", { class: "weight", title }, element("span", { class: "track" }, bar));
    scale.append(element("span", { class: "number", text: path.importance.toPrecision(2) }));
    return element("li", {}, scale, element("span", { class: "path" }, ...pathSteps(path)));
  }));
}

function pathSteps({ entities, relations, inverse, names, relation_names }) {
  return entities.flatMap((label, place) => {
    const entity = element("span", { class: "entity", text: names[place] ?? label });
    if (place === 0) return [entity];
    const [before, after] = inverse[place - 1] ? ["←", "–"] : ["–", "→"];
    const relation = element("span", { class: "relation", text: `${before}[${relation_names[place - 1] ?? relations[place - 1]}]${after}` });
    return [" ", relation, " ", entity];
  });
}

// The bar of a vote: rank 1 fills it, the last rank leaves it empty, on a logarithmic scale.
function vote(cast, answer, model, place, { weights, candidates }) {
  const share = cast ? cast.weight : weights[model];
  const cell = element("td", { class: `vote model-${place % 8}`, "data-name": `${model} ${percent(share)}` });
  if (!cast || cast.rank === null || share === 0) {
    const silent = answer.abstained.includes(model);
    const reason = silent ? `${model} abstains: it was not trained on one of the two entities` : `${model} does not count here`;
    cell.append(element("span", { class: "quiet", text: silent ? "abstains" : "–", title: reason }));
    return cell;
  }
  const length = candidates > 1 ? 1 - Math.log(cast.rank) / Math.log(candidates) : 1;
  const bar = element("span", { class: "bar" });
  bar.style.width = `${Math.max(2, 100 * length)}%`;
  bar.style.height = `${3 + 13 * share}px`;
  const track = element("span", { class: "track", title: `${model}: rank ${cast.rank}, weight ${percent(share)}` }, bar);
  cell.append(element("span", { class: "number", text: cast.rank.toLocaleString("en") }), track);
  return cell;
}

// ---- walking -------------------------------------------------------------------------------------------------

function walk(answer, question) {
  const { side, anchor, relation } = question;
  const next = { ...question, side: "tail", anchor: answer.entity, other: "", trail: [...question.trail, { side, anchor, relation }] };
  const link = element("a", { href: toAddress(next), text: answer.name ?? answer.entity });
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    await go(await fitting(next));
    at("result-title").focus();
  });
  return link;
}

// The answer becomes the new head. A relation it never had as a head would be a poor question: take its most frequent one.
async function fitting(question) {
  const facts = await ask("/api/entity", { label: question.anchor }).catch(() => null);
  if (!facts || facts.as_head.some(({ relation }) => relation === question.relation)) return question;
  if (facts.as_head.length) return { ...question, relation: facts.as_head[0].relation };
  if (facts.as_tail.length) return { ...question, side: "head", relation: facts.as_tail[0].relation };
  return question;
}

// ---- beginning -----------------------------------------------------------------------------------------------

async function suggestEntities(typed) {
  const { entities } = await ask("/api/entities", { prefix: typed.trim(), limit: SUGGESTIONS }).catch(() => ({ entities: [] }));
  return entities.map(({ label, name }) => ({ value: label, text: name ?? label, note: name ? label : "" }));
}

async function suggestRelations(typed) {
  const wanted = typed.trim().toLowerCase();
  const place = ({ label, name }) => {
    const places = [label, name ?? label].map((text) => text.toLowerCase().indexOf(wanted)).filter((found) => found >= 0);
    return places.length ? Math.min(...places) : -1;
  };
  const fits = relations.filter((relation) => place(relation) >= 0);
  fits.sort((a, b) => (place(a) > 0) - (place(b) > 0));
  return fits.slice(0, RELATIONS_SHOWN).map((relation) => ({
    value: relation.label,
    text: relation.name ?? relation.label,
    note: [relation.name && relation.label, relation.class, `${relation.train.toLocaleString("en")} triples`].filter(Boolean).join(", "),
  }));
}

// `pressed`: the question was sent off, so that what it lacks must be said; taking a suggestion just leads on.
function askIfComplete(pressed) {
  const question = fromForm();
  if (isComplete(question)) return go(question);
  const { side, anchor, relation, other } = question;
  if (side === "new") {
    if (pressed) say("Name an entity or a relation first: begin to type, and choose from the list.");
    at("entity").focus();
    return;
  }
  const lacking = [
    !anchor && ["entity", side === "head" ? "a tail" : "a head"],
    !relation && side !== "relation" && ["relation", "a relation"],
    !other && hasTwo(side) && ["other", "a tail"],
  ].filter(Boolean);
  const named = lacking.map(([, name]) => name).join(", ").replace(/, ([^,]*)$/, " and $1");
  if (pressed) say(`Name ${named} first: begin to type, and choose from the list.`);
  else at("message").hidden = true;
  at(lacking[0][0]).focus();
}

function begin() {
  new Combobox(at("entity"), suggestEntities, () => askIfComplete(false));
  new Combobox(at("other"), suggestEntities, () => askIfComplete(false));
  new Combobox(at("relation"), suggestRelations, () => askIfComplete(false));
  at("question").addEventListener("submit", (event) => {
    event.preventDefault();
    askIfComplete(true);
  });
  for (const radio of sides) radio.addEventListener("change", changeSide);
  for (const id of ["top", "known"]) {
    at(id).addEventListener("change", () => isComplete(fromForm()) && go(fromForm()));
  }
  addEventListener("popstate", show);
}

async function introduce() {
  const [run, found] = await Promise.all([ask("/api/run"), ask("/api/relations")]);
  relations = found.relations;
  members = run.models;
  explains = run.explains;
  const { dataset, models } = run;
  write("served", `${run.run}: ${dataset.entities.toLocaleString("en")} entities, ${dataset.relations} relations, ` +
    `${models.length} models`);
  const examples = relations.filter(({ example }) => example).slice(0, EXAMPLES).map(({ label, name, example }) => {
    const question = { ...fromAddress(), side: "tail", anchor: example, relation: label, other: "", trail: [] };
    return step(question, sentence({ ...question, relation: name ?? label }), { class: "chip" });
  });
  at("examples").replaceChildren(...examples);
}

begin();
introduce().then(show, showError);
