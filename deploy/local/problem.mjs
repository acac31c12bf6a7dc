// A failure that the user can repair: its message says how, and is printed without a stack.
export class Problem extends Error {}

/** The error lines of a failed command's output, otherwise its last lines, indented for a problem's message. */
export function reasonIn(output) {
  const lines = output.trimEnd().split("\n");
  const errors = lines.filter((line) => /^(E: |npm (error|ERR!) (?!A complete log))/.test(line)).slice(0, 5);
  return (errors.length > 0 ? errors : lines.slice(-5)).map((line) => `\n    ${line}`).join("");
}
