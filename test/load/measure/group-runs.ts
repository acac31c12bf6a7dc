// Measures the groups in turn. The failure of one group is reported and does not end the others.

import type { Group } from "./table.ts";

export interface GroupRuns<Name extends string> {
  /** Null: the group is skipped. */
  measure(name: Name): Promise<Group | null>;
  /** Stops everything that a failed group has started, so that it does not disturb the next one. */
  stopAll(): Promise<void>;
  /** Whether the benchmark was interrupted. A group then fails because its processes end. */
  isInterrupted(): boolean;
  log(text: string): void;
}

export interface GroupFailure {
  readonly group: string;
  readonly reason: string;
}

export async function measureInTurn<Name extends string>(
  names: readonly Name[],
  { measure, stopAll, isInterrupted, log }: GroupRuns<Name>,
): Promise<{ readonly groups: Group[]; readonly failures: GroupFailure[] }> {
  const groups: Group[] = [];
  const failures: GroupFailure[] = [];
  for (const name of names) {
    if (isInterrupted()) break;
    try {
      const group = await measure(name);
      if (group !== null) groups.push(group);
    } catch (error) {
      if (isInterrupted()) break;
      failures.push({ group: name, reason: reasonOf(error) });
      log(`${name}: FAILED, ${error instanceof Error ? error.stack : String(error)}`);
      await stopAll();
    }
  }
  return { groups, failures };
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
