// The page: the question is in the address, so that "back" works and a link can be shared. Labels may hold anything;
// they only ever become text, with control characters as escapes.

import { Combobox } from "/static/combobox.js";
import { ask } from "/static/requests.js";
import { visible } from "/static/visible.js";

const TRAIL_LIMIT = 8;
const SUGGESTIONS = 12;
const RELATIONS_SHOWN = 200;
const EXAMPLES = 6;
const CONFIDENCE = "confidence";
const NO_PATHS = "No path is short enough, or no model that follows paths has a weight here.";
const at = (id) => document.getElementById(id);
const sides = [...document.getElementsByName("side")];
let relations = [];
let explains = false;
let turn = 0;

// ---- the question and the address ----------------------------------------------------------------------------

// A question: {side: "tail" | "head" (what is asked for), anchor, relation, top, known, trail: [{side, anchor, relation}]}
function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  const side = parameters.has("tail") ? "head" : "tail";
  const trail = parameters.getAll("step").map((step) => step.split("\t")).filter((parts) => parts.length === 3);
  return {
    side,
    anchor: parameters.get(side === "tail" ? "head" : "tail") ?? "",
    relation: parameters.get("relation") ?? "",
    top: parameters.get("top") ?? "10",
    known: parameters.get("known") ?? "mark",
    trail: trail.slice(-TRAIL_LIMIT).map(([from, anchor, relation]) => ({ side: from, anchor, relation })),
  };
}

function toAddress({ side, anchor, relation, top, known, trail }) {
  const parameters = new URLSearchParams();
  if (anchor) parameters.set(side === "tail" ? "head" : "tail", anchor);
  if (relation) parameters.set("relation", relation);
  if (top !== "10") parameters.set("top", top);
  if (known !== "mark") parameters.set("known", known);
  for (const step of trail.slice(-TRAIL_LIMIT)) {
    parameters.append("step", [step.side, step.anchor, step.relation].join("\t"));
  }
  return parameters.size ? `/?${parameters}` : "/";
}

function fromForm() {
  const { trail } = fromAddress();
  return {
    side: sides.find((radio) => radio.checked).value,
    anchor: at("entity").value.trim(),
    relation: at("relation").value.trim(),
    top: at("top").value,
    known: at("known").checked ? "mark" : "drop",
    trail,
  };
}

function toForm({ side, anchor, relation, top, known }) {
  for (const radio of sides) radio.checked = radio.value === side;
  at("entity").value = anchor;
  at("relation").value = relation;
  at("top").value = top;
  if (!at("top").value) at("top").value = "10";
  at("known").checked = known !== "drop";
  nameTheField();
}

function nameTheField() {
  const side = sides.find((radio) => radio.checked).value;
  document.querySelector("label[for=entity]").textContent = side === "tail" ? "Head" : "Tail";
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
  if (!question.anchor || !question.relation) at("result").hidden = true;
  document.title = question.anchor ? visible(`${sentence(question)} · relens`) : "relens";
  if (!question.anchor) return;
  at("result").classList.add("stale");
  const slow = setTimeout(() => (at("status").textContent = "Asking the models …"), 300);
  try {
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

function sentence({ side, anchor, relation }) {
  const middle = relation || "…";
  return side === "tail" ? `${anchor} → ${middle} → ?` : `? → ${middle} → ${anchor}`;
}

function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, key === "href" ? value : visible(value));
  }
  if (text !== undefined) made.textContent = visible(text);
  made.append(...children);
  return made;
}

function write(id, text) {
  at(id).textContent = visible(text);
}

// A link that the page follows itself; a new tab works too.
function step(question, text, attributes = {}) {
  const link = element("a", { href: toAddress(question), text, ...attributes });
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(question);
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
    return step({ ...question, [wrongRelation ? "relation" : "anchor"]: label }, label, { class: "chip" });
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
  const lines = [["tail", "as head", facts.as_head], ["head", "as tail", facts.as_tail]].map(([side, title, counts]) => {
    const chips = counts.slice(0, RELATIONS_SHOWN).map(({ relation, name, count }) => {
      const current = question.side === side && question.relation === relation ? "true" : undefined;
      const next = { ...question, side, relation };
      const chip = step(next, `${name ?? relation} `, { class: "chip", "aria-current": current });
      chip.append(element("small", { text: count.toLocaleString("en") }));
      return chip;
    });
    const none = element("span", { class: "quiet", text: "never" });
    return element("div", { class: "chips" }, element("span", { class: "quiet", text: title }), ...(chips.length ? chips : [none]));
  });
  at("facts-list").replaceChildren(...lines);
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
  at("answers").hidden = at("reading").hidden = answers.length === 0;
  at("result").hidden = false;
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

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)} %`;
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
  const next = { ...question, side: "tail", anchor: answer.entity, trail: [...question.trail, { side, anchor, relation }] };
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
  if (question.anchor && question.relation) return go(question);
  const given = question.side === "tail" ? "head" : "tail";
  const lacking = [!question.anchor && `a ${given}`, !question.relation && "a relation"].filter(Boolean).join(" and ");
  if (pressed) say(`Name ${lacking} first: begin to type, and choose from the list.`);
  else at("message").hidden = true;
  at(question.anchor ? "relation" : "entity").focus();
}

function begin() {
  new Combobox(at("entity"), suggestEntities, () => askIfComplete(false));
  new Combobox(at("relation"), suggestRelations, () => askIfComplete(false));
  at("question").addEventListener("submit", (event) => {
    event.preventDefault();
    askIfComplete(true);
  });
  for (const radio of sides) radio.addEventListener("change", nameTheField);
  for (const id of ["top", "known"]) {
    at(id).addEventListener("change", () => fromForm().anchor && fromForm().relation && go(fromForm()));
  }
  addEventListener("popstate", show);
}

async function introduce() {
  const [run, found] = await Promise.all([ask("/api/run"), ask("/api/relations")]);
  relations = found.relations;
  explains = run.explains;
  const { dataset, models } = run;
  write("served", `${run.run}: ${dataset.entities.toLocaleString("en")} entities, ${dataset.relations} relations, ` +
    `${models.length} models`);
  const examples = relations.filter(({ example }) => example).slice(0, EXAMPLES).map(({ label, name, example }) => {
    const question = { ...fromAddress(), side: "tail", anchor: example, relation: label, trail: [] };
    return step(question, sentence({ ...question, relation: name ?? label }), { class: "chip" });
  });
  at("examples").replaceChildren(...examples);
}

begin();
introduce().then(show, showError);
