// A failure the reader can do something about: its message says what and how, and is shown without a stack.
export class Problem extends Error {}

/** What a failed command said about it, indented for a problem's message: its error lines, or else its last ones. */
export function reasonIn(output) {
  const lines = output.trimEnd().split("\n");
  const errors = lines.filter((line) => /^(E: |npm (error|ERR!) (?!A complete log))/.test(line)).slice(0, 5);
  return (errors.length > 0 ? errors : lines.slice(-5)).map((line) => `\n    ${line}`).join("");
}
