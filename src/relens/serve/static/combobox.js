// A text field with a list of suggestions, after the ARIA pattern: arrows move, Enter takes, Escape closes.

import { visible } from "/static/visible.js";

let made = 0;

export class Combobox {
  // `suggest(typed)` resolves to [{value, text, note}]; `taken(value)` is called when a suggestion is taken.
  constructor(input, suggest, taken) {
    Object.assign(this, { input, suggest, taken, options: [], active: -1, asked: 0 });
    this.list = document.createElement("ul");
    this.list.id = `suggestions-${++made}`;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Suggestions");
    this.list.hidden = true;
    input.after(this.list);
    const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false" };
    for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
    input.setAttribute("aria-controls", this.list.id);
    input.addEventListener("input", () => this.open(input.value));
    input.addEventListener("click", () => this.list.hidden && this.open(""));
    input.addEventListener("keydown", (event) => this.pressed(event));
    input.addEventListener("blur", () => this.close());
    // A press on the list must not take the focus away before the click arrives.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  async open(typed) {
    const turn = ++this.asked;
    const options = await this.suggest(typed);
    if (turn !== this.asked || document.activeElement !== this.input) return;
    this.options = options;
    this.list.replaceChildren(...options.map((option, place) => this.item(option, place)));
    this.list.hidden = options.length === 0;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.activate(-1);
  }

  close() {
    this.asked++;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.activate(-1);
  }

  item({ text, note }, place) {
    const item = document.createElement("li");
    item.id = `${this.list.id}-${place}`;
    item.setAttribute("role", "option");
    item.append(visible(text));
    if (note) {
      const small = document.createElement("small");
      small.textContent = visible(note);
      item.append(" ", small);
    }
    item.addEventListener("click", () => this.take(place));
    return item;
  }

  activate(place) {
    this.active = place;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === place)));
    const item = this.list.children[place];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  take(place) {
    this.input.value = this.options[place].value;
    this.close();
    this.taken(this.input.value);
  }

  pressed(event) {
    const n = this.options.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.list.hidden) this.open(this.input.value);
      else if (event.key === "ArrowDown") this.activate((this.active + 1) % n);
      else this.activate(this.active <= 0 ? n - 1 : this.active - 1);
    } else if (event.key === "Enter" && !this.list.hidden && this.active >= 0) {
      event.preventDefault();
      this.take(this.active);
    } else if (event.key === "Escape" && !this.list.hidden) {
      event.preventDefault();
      this.close();
    }
  }
}
