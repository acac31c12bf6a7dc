/** The commands of a document: the lines of each section's `sh` blocks, with the results that their comments state. */

export interface DocumentedCommand {
  /** One line of a shell. */
  readonly command: string;
  /** The exit code of the command; 0 unless the comment has `exit <n>`. */
  readonly exit: number;
  /** The quoted parts of the comment, which the output of the command contains. */
  readonly prints: readonly string[];
  /** The comment has `until Ctrl-C`. */
  readonly isInterrupted: boolean;
}

interface Section {
  readonly heading: string;
  readonly steps: readonly DocumentedCommand[];
}

/** The sections that have commands, in their order. */
export function sections(markdown: string): Section[] {
  return markdown
    .split(/^## /m)
    .slice(1)
    .map((text) => ({ heading: text.slice(0, text.indexOf("\n")), steps: stepsOf(text) }))
    .filter(({ steps }) => steps.length > 0);
}

function stepsOf(text: string): DocumentedCommand[] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  return blocks.flatMap(commandsOf);
}

/** The commands of one `sh` block. A line that ends with a backslash continues; a line of a comment alone is none. */
export function commandsOf(block: string): DocumentedCommand[] {
  const lines = block.replaceAll(/\\\n\s*/g, "").split("\n");
  return lines.filter((line) => line !== "" && !line.startsWith("#")).map(commandOf);
}

function commandOf(line: string): DocumentedCommand {
  const [command = "", comment = ""] = line.split(/ {2,}# /);
  return {
    command: command.trim(),
    exit: Number(/\bexit (\d+)/.exec(comment)?.[1] ?? 0),
    prints: [...comment.matchAll(/"([^"]+)"/g)].map(([, quoted = ""]) => quoted),
    isInterrupted: comment.includes("until Ctrl-C"),
  };
}
