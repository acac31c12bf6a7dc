// The next step where retention keeps a checkpoint or a task: what shows the reason, and what ends it.

import type { FleetError } from "../../../../shared/protocol/errors.ts";
import type { KeptReason } from "../../../../shared/protocol/retention.ts";

interface KeptOf {
  readonly details: FleetError["details"];
  /** As an argument of a command. */
  readonly task: string;
  /** The name of the program. */
  readonly fleet: string;
}

const HINTS: Readonly<Record<KeptReason, (kept: KeptOf) => string>> = {
  held: ({ details: { holds }, task, fleet }) => {
    const name = Array.isArray(holds) ? String(holds[0]) : "NAME";
    return `\`${fleet} task holds\` lists who placed it and why; \`${fleet} task retain ${task} --release ${name}\` releases it.`;
  },
  promised: classHint,
  floor: classHint,
  newest: () => "It is one of the newest of its task: --keep N keeps fewer of them.",
  final: () => "It is the final checkpoint of a completed task, which the settings keep for a time.",
  recovery: ({ task, fleet }) =>
    `A recovery of the task would continue from it (\`${fleet} recovery show ${task}\`). A newer sound checkpoint takes its place.`,
  handoff: ({ task, fleet }) =>
    `The open handoff starts from it (\`${fleet} task show ${task}\`): try again when that has ended.`,
  owned: ({ task, fleet }) =>
    `The living agent of the task continues from it (\`${fleet} task show ${task}\`): try again when that has ended.`,
  signed: ({ task, fleet }) =>
    `A person has signed a version of it (\`${fleet} signatures ${task}\`), so it is not removed alone.`,
  young: () => "It is not old enough for this removal.",
  corrupt: ({ task, fleet }) =>
    `An ancestor of it does not verify (\`${fleet} checkpoint history ${task}\`): decide first from where to continue.`,
};

function classHint({ details: { checkpoint_id: id }, fleet }: KeptOf): string {
  return `\`${fleet} checkpoint show ${typeof id === "string" ? id : "<id>"}\` shows its class and floor. Try again when that time has ended.`;
}

/** undefined: the error has another cause. */
export function keptHint(details: FleetError["details"], task: string, fleet: string): string | undefined {
  const { reason } = details;
  if (typeof reason !== "string" || !Object.hasOwn(HINTS, reason)) return undefined;
  return HINTS[reason as KeptReason]({ details, task, fleet });
}
