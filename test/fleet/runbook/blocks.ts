/** The commands of a runbook: each section's `sh` blocks, line by line, with what their comments promise. */

export interface Step {
  readonly command: string;
  /** Of the command; 0 unless the comment says `exit <n>`. */
  readonly exit: number;
  /** What the comment quotes: it is in what the command prints. */
  readonly says: readonly string[];
}

export interface Section {
  readonly heading: string;
  readonly steps: readonly Step[];
}

/** Those that have commands, in their order. */
export function sections(markdown: string): Section[] {
  return markdown
    .split(/^## /m)
    .slice(1)
    .map((text) => ({ heading: text.slice(0, text.indexOf("\n")), steps: stepsOf(text) }))
    .filter(({ steps }) => steps.length > 0);
}

function stepsOf(text: string): Step[] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  return blocks.flatMap((block) => block.trimEnd().split("\n").map(stepOf));
}

function stepOf(line: string): Step {
  const [command = "", comment = ""] = line.split(/ {2,}# /);
  return {
    command: command.trim(),
    exit: Number(/\bexit (\d+)/.exec(comment)?.[1] ?? 0),
    says: [...comment.matchAll(/"([^"]+)"/g)].map(([, quoted = ""]) => quoted),
  };
}
