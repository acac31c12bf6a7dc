/**
 * The report of redaction for the agent and its user: where secrets were removed from a session, and by which rule; never a value. It is
 * made from the marks in the kept texts, so it is the same after a restart of the helper, and it names what the hook process removed too.
 */
import { REDACTION_RULES } from "../../../shared/protocol/redaction-report.ts";
import type { Activity, AgentSession } from "../../../shared/protocol/turns.ts";

/** The hook process leaves a mark without a rule. */
const MARK = /\[redacted(?:: ([^\]\n]{1,60}))?\]/g;
const KNOWN = "known secret";

/** "prompt: 1 GitHub token, 2 known secret" for each kind of text that has a mark. */
export function removedFrom({ prompt, message, files = [], commands = [] }: Reported): string[] {
  const texts = {
    prompt: [prompt],
    commands: commands.map(({ command }) => command),
    files,
    "last message": [message],
  };
  return Object.entries(texts).flatMap(([name, of]) => {
    const counts = new Map<string, number>();
    for (const text of of)
      for (const rule of marksIn(text ?? "")) counts.set(rule, (counts.get(rule) ?? 0) + 1);
    const rules = [...counts].map(([rule, count]) => `${count} ${rule}`);
    return rules.length === 0 ? [] : [`${name}: ${rules.join(", ")}`];
  });
}

export type Reported = Pick<Activity, "files" | "commands"> & {
  readonly prompt?: string | null | undefined;
  readonly message?: string | null | undefined;
};

/** Other words in brackets are the user's own. */
function marksIn(text: string): string[] {
  return [...text.matchAll(MARK)]
    .map(([, rule = KNOWN]) => rule)
    .filter((rule) => REDACTION_RULES.includes(rule));
}

/** What a session holds of the turn that began last. */
export function activityOfTurn({ activity, turn_began_at: began }: AgentSession): Reported {
  return { ...activity, commands: activity.commands.filter(({ at }) => began === null || at >= began) };
}

/** undefined: nothing was removed. */
export function redactionNotice(reported: Reported): string | undefined {
  const removed = removedFrom(reported);
  if (removed.length === 0) return undefined;
  return `Fleet removed secrets before it saved this turn (${removed.join("; ")}). A mark such as [redacted: ${KNOWN}] stands in the place of each, also in a continuation prompt: write where a secret is kept, never its value.`;
}
