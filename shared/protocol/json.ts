/**
 * `JSON.parse` without a bug of V8 since 12.8 (nodejs/node#63785): the engine reads a member name with an
 * escape as another name that it parsed before, such as `"` as `\`. Nearly every text has no such name and
 * goes straight to the engine. Any other text is turned into arrays first, where names are values, which the
 * engine parses correctly. A test fails as soon as the engine is fixed, and this parser can go.
 */

/** The index after the closing quote of the string that opens at `quote`. */
export function stringEnd(text: string, quote: number): number {
  let close = text.indexOf('"', quote + 1);
  while (close !== -1) {
    let slashes = 0;
    while (text.charCodeAt(close - 1 - slashes) === 92) slashes += 1;
    if (slashes % 2 === 0) return close + 1;
    close = text.indexOf('"', close + 1);
  }
  return text.length;
}

function hasEscapedName(text: string): boolean {
  const colon = /[ \t\r\n]*:/y;
  let slash = text.indexOf("\\");
  while (slash !== -1) {
    // The first backslash of its string: no escape stands before it, so the search for the end can start
    // here.
    colon.lastIndex = stringEnd(text, slash - 1);
    const end = colon.lastIndex;
    if (colon.test(text)) return true;
    slash = text.indexOf("\\", end);
  }
  return false;
}

const QUOTE_OR_MARK = /"|[{[](?:[ \t\r\n]*[}\]])?|[:}]/g;
const OBJECT = 1;
const ARRAY = 0;

/** `{"a":[]}` becomes `[1,"a",[0]]`. */
function asArrays(text: string): string {
  const marks = new RegExp(QUOTE_OR_MARK);
  let arrays = "";
  let copied = 0;
  for (let found = marks.exec(text); found !== null; found = marks.exec(text)) {
    // Not by the expression, whose stack overflows in a string of some megabytes.
    if (found[0] === '"') {
      marks.lastIndex = stringEnd(text, found.index);
    } else {
      arrays += text.slice(copied, found.index) + arrayMark(found[0]);
      copied = marks.lastIndex;
    }
  }
  return arrays + text.slice(copied);
}

function arrayMark(part: string): string {
  if (part === ":") return ",";
  if (part === "}") return "]";
  const kind = part.startsWith("{") ? OBJECT : ARRAY;
  return part.length === 1 ? `[${kind},` : `[${kind}]`;
}

/** The value of a text in the form of `asArrays`. Without recursion, because the depth is not checked yet. */
function rebuilt(root: unknown): unknown {
  const top: { value?: unknown } = {};
  const open: { from: unknown; put: (value: unknown) => void }[] = [
    { from: root, put: (value) => (top.value = value) },
  ];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { from, put } = next;
    if (!Array.isArray(from)) {
      put(from);
    } else if (from[0] === ARRAY) {
      const array: unknown[] = new Array(from.length - 1);
      put(array);
      for (let i = from.length - 1; i > 0; i -= 1)
        open.push({ from: from[i], put: (value) => (array[i - 1] = value) });
    } else {
      const object = {};
      put(object);
      // Members in their order, and `__proto__` as a member like any other.
      const property = { enumerable: true, configurable: true, writable: true };
      for (let i = 1; i < from.length; i += 2)
        Object.defineProperty(object, from[i], { ...property, value: null });
      for (let i = from.length - 2; i > 0; i -= 2)
        open.push({ from: from[i + 1], put: (value) => Object.defineProperty(object, from[i], { value }) });
    }
  }
  return top.value;
}

/** Throws SyntaxError like `JSON.parse`. */
export function parseJsonText(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return hasEscapedName(text) ? rebuilt(JSON.parse(asArrays(text))) : value;
}
