// Requests to the service. Its token, if it has one, comes from the address (#token=…) or from a form. It stays in the
// session storage of this tab: never in the address, in links or in cookies.

const KEY = "relens-token";
const BEGIN = "#token=";

// What cannot stand in a header is no part of a token.
const keep = (token) => sessionStorage.setItem(KEY, token.replace(/[^\x21-\x7e]/g, ""));

function takeFromAddress() {
  if (!location.hash.startsWith(BEGIN)) return false;
  keep(location.hash.slice(BEGIN.length));
  history.replaceState(history.state, "", location.pathname + location.search);
  return true;
}

takeFromAddress();
addEventListener("hashchange", () => takeFromAddress() && location.reload());

// With a body, the request is a POST.
export async function ask(path, parameters = {}, body = undefined) {
  const query = new URLSearchParams(parameters);
  const token = sessionStorage.getItem(KEY);
  let response;
  try {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const sent = body && { method: "POST", body: JSON.stringify(body) };
    if (body) headers["Content-Type"] = "application/json";
    response = await fetch(query.size ? `${path}?${query}` : path, { headers, ...sent });
  } catch {
    throw new Error("The service does not answer. Is it still running?");
  }
  if (response.status === 401) return askForToken(Boolean(token));
  const value = await response.json().catch(() => ({ error: `The service answered with status ${response.status}.` }));
  if (!response.ok) throw Object.assign(new Error(value.error), { closest: value.closest ?? [] });
  return value;
}

// Show a form in place of the page, which is loaded again with the token: nobody gets an answer before.
function askForToken(wrong) {
  if (!document.getElementById("token")) {
    const [place, form, label, input, button] = ["main", "form", "label", "input", "button"].map((name) => document.createElement(name));
    label.textContent = wrong ? "This is not the token of this service. Token:" : "This service needs a token:";
    label.htmlFor = "token";
    Object.assign(input, { type: "password", id: "token", required: true, autocomplete: "off" });
    Object.assign(button, { className: "ask", textContent: "Continue" });
    const field = document.createElement("div");
    field.className = "field";
    field.append(label, input);
    form.append(field, button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      keep(input.value);
      location.reload();
    });
    place.append(form);
    document.querySelector("main").hidden = true;
    document.querySelector("main").after(place);
    input.focus();
  }
  return new Promise(() => {});
}
