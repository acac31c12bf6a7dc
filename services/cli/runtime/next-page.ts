// The command that shows the next page: the current call with the cursor, ready to be copied. Relative times are replaced
// by absolute ones, because a cursor belongs to one query, and a minute later "2h" means another query.

import type { Session } from "./session.ts";

export interface NextPage {
  /** The option that moves to the next page, and its value. */
  readonly option: string;
  readonly value: string;
  /** Options that keep the value that they had in this call. */
  readonly fixed?: Readonly<Record<string, string | undefined>>;
}

/** The command for the next page of a list that moves by a cursor; undefined when there is none. */
export function nextPage(
  session: Session,
  cursor: string | undefined,
  fixed: Readonly<Record<string, string | undefined>> = {},
): string | undefined {
  return cursor === undefined
    ? undefined
    : nextCommand(session.programName, session.context.argv, { option: "--cursor", value: cursor, fixed });
}

/** `fleet`: the name of the program here. */
export function nextCommand(
  fleet: string,
  argv: readonly string[],
  { option, value, fixed = {} }: NextPage,
): string {
  const words: string[] = [];
  for (let i = 0; i < argv.length; i += 1) {
    const word = argv[i]!;
    const [name = "", inline] = word.startsWith("--") ? splitOnce(word) : [word];
    const replaced = name === option ? undefined : fixed[name];
    if (name !== option && replaced === undefined) {
      words.push(word);
      continue;
    }
    if (inline === undefined) i += 1;
    if (replaced !== undefined) words.push(name, replaced);
  }
  return [fleet, ...[...words, option, value].map(quoted)].join(" ");
}

function splitOnce(word: string): [string, string?] {
  const at = word.indexOf("=");
  return at < 0 ? [word] : [word.slice(0, at), word.slice(at + 1)];
}

/** Quotes a word for a POSIX shell. */
function quoted(word: string): string {
  return /^[A-Za-z0-9_\-./:=,@%+]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
