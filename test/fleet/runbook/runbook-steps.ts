/** The commands of a runbook: the lines of each section's `sh` blocks, with the results that their comments state. */

export interface RunbookStep {
  readonly command: string;
  /** The exit code of the command; 0 unless the comment has `exit <n>`. */
  readonly exit: number;
  /** The quoted parts of the comment, which the output of the command contains. */
  readonly prints: readonly string[];
}

interface Section {
  readonly heading: string;
  readonly steps: readonly RunbookStep[];
}

/** The sections that have commands, in their order. */
export function sections(markdown: string): Section[] {
  return markdown
    .split(/^## /m)
    .slice(1)
    .map((text) => ({ heading: text.slice(0, text.indexOf("\n")), steps: stepsOf(text) }))
    .filter(({ steps }) => steps.length > 0);
}

function stepsOf(text: string): RunbookStep[] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  return blocks.flatMap((block) => block.trimEnd().split("\n").map(stepOf));
}

function stepOf(line: string): RunbookStep {
  const [command = "", comment = ""] = line.split(/ {2,}# /);
  return {
    command: command.trim(),
    exit: Number(/\bexit (\d+)/.exec(comment)?.[1] ?? 0),
    prints: [...comment.matchAll(/"([^"]+)"/g)].map(([, quoted = ""]) => quoted),
  };
}

/** A word that means the same in every shell: bare, or in double quotes without an expansion. */
const PLAIN_WORD = /[\w./:@=,+-]+|"[^"$`\\!]*"/y;

/** The words of a command without any syntax of the shell; undefined for every other command. */
export function plainWords(command: string): string[] | undefined {
  const words: string[] = [];
  for (let at = 0; at < command.length; at = PLAIN_WORD.lastIndex + 1) {
    PLAIN_WORD.lastIndex = at;
    const [word] = PLAIN_WORD.exec(command) ?? [];
    const isEnd = [undefined, " "].includes(command[PLAIN_WORD.lastIndex]);
    if (word === undefined || !isEnd) return undefined;
    words.push(word.startsWith('"') ? word.slice(1, -1) : word);
  }
  return words;
}
