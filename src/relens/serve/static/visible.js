// Names may hold control characters, and marks that turn the direction of the text: people see them as escapes, in the
// spelling of relens/visible.py.

const ACTING = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029\ufffe\uffff]/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function visible(text) {
  return String(text).replace(ACTING, (character) => SHORT[character] ?? escaped(character.codePointAt(0)));
}

function escaped(code) {
  const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
}
