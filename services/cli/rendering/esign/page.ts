// The layout of the pages that a person sees in the browser. They load nothing, and all of their text is escaped.

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export const escapedText = (text: string): string => text.replace(/[&<>"']/g, (char) => ESCAPES[char]!);

const STYLE = [
  ":root{color-scheme:light dark;--line:#8886;--main:#0b5cad;--on:#fff}",
  "@media(prefers-color-scheme:dark){:root{--main:#8ec5ff;--on:#10202f}}",
  "body{font:1.0625rem/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1.25rem}",
  "h1{font-size:1.6rem;line-height:1.25}",
  "table{border-collapse:collapse;width:100%}",
  "th,td{border-bottom:1px solid var(--line);padding:.5rem 0;text-align:left;vertical-align:top}",
  "th{font-weight:600;padding-right:1.25rem;white-space:nowrap}",
  "td{overflow-wrap:anywhere}",
  "a.act,button{display:inline-block;font:inherit;font-weight:600;border:0;border-radius:.4rem;padding:.7rem 1.3rem;background:var(--main);color:var(--on);text-decoration:none;cursor:pointer}",
  "button:disabled{opacity:.55;cursor:default}",
  ":focus-visible{outline:3px solid var(--main);outline-offset:3px}",
  "#state{min-height:1.5em;font-weight:600}",
].join("");

/** `body`: HTML. */
export function pageHtml(title: string, body: string): string {
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapedText(title)}</title>` +
    `<style>${STYLE}</style></head><body><main><h1>${escapedText(title)}</h1>${body}</main></body></html>`
  );
}

export function factsTable(rows: readonly (readonly [string, string])[]): string {
  const cells = rows.map(
    ([name, value]) => `<tr><th scope="row">${escapedText(name)}</th><td>${escapedText(value)}</td></tr>`,
  );
  return `<table>${cells.join("")}</table>`;
}
