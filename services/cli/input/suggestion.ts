// The call that a mistaken one probably means: another verb of the group, a command of another group, or the same word with
// its verb or option. Only calls that exist are suggested.

import type { Command } from "commander";
import { editDistance } from "../../../shared/runtime/settings/did-you-mean.ts";
import { isLikeCheckpointId } from "./id.ts";

/** The verbs that show one record of a group. */
const SHOWING = ["show", "status"];
/** Words that a shell passes on unchanged. */
const BARE_WORD = /^\w[\w./:@%+-]*$/;
/** A longer list would not help the caller to choose. */
const SUGGESTIONS_MAX = 3;

/** Words of other tools, and the verbs or commands for the same thing here. */
const SYNONYMS: Readonly<Record<string, string>> = {
  ls: "list",
  ps: "list",
  get: "show",
  view: "show",
  describe: "show",
  inspect: "show",
  info: "show",
  new: "create",
  write: "create",
  save: "create",
  edit: "update",
  accept: "handoff take",
  claim: "fence take",
  acknowledge: "ack",
  retry: "run",
  recover: "recovery start",
  find: "search",
  log: "history",
  logs: "events",
  tail: "events",
  top: "watch",
  start: "up",
  serve: "up",
  restore: "resume",
  continue: "resume",
  completions: "completion",
};

/** The suggestion for a word that is no verb of `group`, in code quotes; undefined: there is none. */
export function suggestionFor(group: Command): string | undefined {
  const [word = "", ...rest] = group.args;
  const lower = word.toLowerCase();
  const meant = [lower, ...(Object.hasOwn(SYNONYMS, lower) ? [SYNONYMS[lower]!] : [])];
  const inGroup = group.commands.map((one) => one.name());
  const known = inGroup.find((name) => meant.includes(name));
  if (known !== undefined) return quote(`${fullName(group)} ${known}`);
  const elsewhere = leaves(rootOf(group)).filter((one) => meant.some((name) => isCalled(one, name)));
  if (elsewhere.length > 0) return several(elsewhere, rest, group);
  const near = nearest(lower, inGroup);
  if (near.length > 0) return near.map((name) => quote(`${fullName(group)} ${name}`)).join(" or ");
  const withWord = callWith(word, group);
  if (withWord !== undefined) return withWord;
  const all = leaves(rootOf(group));
  const names = new Set(
    nearest(
      lower,
      all.map((one) => one.name()),
    ),
  );
  const similar = all.filter((one) => names.has(one.name()));
  return similar.length === 0 ? undefined : several(similar, rest, group);
}

/** For a word without its verb (`fleet task auth`) or without its option (`fleet status auth`): the call with it. */
export function callWith(word: string, command: Command): string | undefined {
  if (!BARE_WORD.test(word)) return undefined;
  const history = command.parent?.commands.find((one) => one.name() === "history");
  const takesCheckpoint = command.registeredArguments.length > 0 && history !== undefined;
  if (takesCheckpoint && command !== history && !isLikeCheckpointId(word))
    return quote(`${fullName(history)} ${word}`);
  const name = fullName(command);
  const create = command.commands.find((one) => takesTask(one) && one.name() === "create");
  if (create !== undefined && !isLikeCheckpointId(word)) return quote(`${name} --task ${word}`);
  const shows = command.commands.find(
    (one) => SHOWING.includes(one.name()) && one.registeredArguments.length > 0,
  );
  if (shows !== undefined) return quote(`${name} ${shows.name()} ${word}`);
  return takesTask(command) ? quote(`${name} --task ${word}`) : undefined;
}

/** `name`: a verb, or a group with its verb. */
const isCalled = (command: Command, name: string): boolean => fullName(command).endsWith(` ${name}`);

const takesTask = ({ registeredArguments, options }: Command): boolean =>
  registeredArguments.length === 0 && options.some(({ long }) => long === "--task");

/** The commands of one name in other groups, those first whose group is the next word or resembles it. */
function several(found: readonly Command[], rest: readonly string[], group: Command): string {
  const [noun = ""] = rest;
  const named = found.filter(
    ({ parent }) => parent !== null && [noun, noun.replace(/s$/, "")].includes(parent.name()),
  );
  const shown = (named.length > 0 ? named : found.filter((one) => one.parent !== group)).slice(
    0,
    SUGGESTIONS_MAX,
  );
  return shown.map((one) => quote(fullName(one))).join(" or ");
}

const leaves = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);

const rootOf = (command: Command): Command => (command.parent === null ? command : rootOf(command.parent));

export const fullName = (command: Command): string =>
  command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;

const quote = (call: string): string => `\`${call}\``;

/** The names at the smallest distance, if they share most of their letters with the word. */
function nearest(word: string, names: readonly string[]): string[] {
  const scored = names.map((name) => ({ name, distance: editDistance(word, name) }));
  const close = scored.filter(
    ({ name, distance }) => distance <= Math.min(3, Math.max(word.length, name.length) * 0.4),
  );
  const least = Math.min(...close.map(({ distance }) => distance));
  return close.filter(({ distance }) => distance === least).map(({ name }) => name);
}
