/**
 * The report of redaction for the agent and its user: where marks stand in the place of secrets, and by which rule; never a value. It is
 * made from the marks in the kept texts, so it is the same after a restart of the helper, and it names what the hook process removed too.
 */
import { REDACTION_RULES } from "../../../shared/protocol/redaction-report.ts";
import type { Activity, AgentSession } from "../../../shared/protocol/turns.ts";
import type { HookEvent } from "../event.ts";
import { lastMessageOf } from "./activity.ts";

/** The hook process leaves a mark without a rule. */
const MARK = /\[redacted(?:: ([^\]\n]{1,60}))?\]/g;
const KNOWN = "known secret";

/**
 * "prompt: 1 GitHub token, 2 known secret" for each kind of text that has a mark. `given`: the texts as the helper got them. Their marks
 * with a rule do not count, because the user or the agent wrote them; the hook process leaves marks without one.
 */
export function marksOf(kept: Reported, given: Reported = {}, filesName = "files"): string[] {
  const before = textsOf(given, filesName);
  return [...textsOf(kept, filesName)].flatMap(([name, texts]) => {
    const counts = new Map<string, number>();
    for (const { rule } of marksIn(texts)) counts.set(rule, (counts.get(rule) ?? 0) + 1);
    for (const { rule, isNamed } of marksIn(before.get(name) ?? []))
      if (isNamed) counts.set(rule, (counts.get(rule) ?? 0) - 1);
    const rules = [...counts].flatMap(([rule, count]) => (count > 0 ? [`${count} ${rule}`] : []));
    return rules.length === 0 ? [] : [`${name}: ${rules.join(", ")}`];
  });
}

type Texts = readonly (string | null | undefined)[];

const textsOf = (
  { prompt, message, files = [], commands = [] }: Reported,
  filesName: string,
): ReadonlyMap<string, Texts> =>
  new Map<string, Texts>([
    ["prompt", [prompt]],
    ["commands", commands.map(({ command }) => command)],
    [filesName, files],
    ["last message", [message]],
  ]);

export type Reported = Pick<Activity, "files" | "commands"> & {
  readonly prompt?: string | null | undefined;
  readonly message?: string | null | undefined;
};

/** Other words in brackets are the user's own. */
function marksIn(texts: Texts): { readonly rule: string; readonly isNamed: boolean }[] {
  return texts
    .flatMap((text) => [...(text ?? "").matchAll(MARK)])
    .map(([, rule]) => ({ rule: rule ?? KNOWN, isNamed: rule !== undefined }))
    .filter(({ rule }) => REDACTION_RULES.includes(rule));
}

/** What a session holds of the turn that ends with the event, and all its files. Without a message in the event, an earlier turn had it. */
export function activityOfTurn(
  { activity, turn_began_at: began }: Pick<AgentSession, "activity" | "turn_began_at">,
  event: Pick<HookEvent, "payload">,
): Reported {
  return {
    ...activity,
    message: lastMessageOf(event) === undefined ? null : activity.message,
    commands: activity.commands.filter(({ at }) => began === null || at >= began),
  };
}

/** undefined: no mark. It does not say that Fleet removed each: the user or the agent may have written one. */
export function redactionNotice(reported: Reported): string | undefined {
  const marks = marksOf(reported, {}, "files of the session");
  if (marks.length === 0) return undefined;
  return `Marks such as [redacted: ${KNOWN}] stand in the place of secrets in what Fleet saved of this turn (${marks.join("; ")}), also in a continuation prompt. A mark that was written in the text counts too. Write where a secret is kept, never its value.`;
}
