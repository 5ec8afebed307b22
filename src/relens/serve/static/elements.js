// Parts of the page: elements, texts and numbers. Labels may hold anything; they only ever become text, with control
// characters as escapes.

import { visible } from "/static/visible.js";

export const at = (id) => document.getElementById(id);

export function element(name, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, key === "href" ? value : visible(value));
  }
  if (text !== undefined) made.textContent = visible(text);
  made.append(...children);
  return made;
}

export function write(id, text) {
  at(id).textContent = visible(text);
}

export const number = (value) => (value === null ? "–" : Number(value.toPrecision(3)).toLocaleString("en"));

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)} %`;
}
