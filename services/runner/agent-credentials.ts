/**
 * Short-lived credentials for each agent that a runner starts, in a file of the agent's folder. They permit only
 * what an agent of this name may do. The runner renews the file while the agent runs and removes it at its end,
 * so the last ones expire soon after.
 */
import { rmSync } from "node:fs";
import { issueLocally } from "../../shared/bus/access/local-credentials.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { writeWhole } from "../../shared/runtime/process/whole-file.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { AgentRecord } from "./journal.ts";

const VALID_MS = 60 * 60_000;
const RENEW_MS = VALID_MS / 3;

export interface AgentCredentials {
  /** Writes the file, and renews it until it is stopped. */
  keep(record: AgentRecord, path: string): Promise<Stop>;
  remove(path: string): void;
}

/** `home`: the home of the fleet whose keys this user can read. */
export function localAgentCredentials(
  home: string,
  { clock, log }: { clock: Clock; log: Logger },
): AgentCredentials {
  return {
    async keep({ tenant, agent_id }, path) {
      const issue = async (): Promise<void> => {
        const expiresAt = Math.ceil((clock.now() + VALID_MS) / 1_000);
        const text = await issueLocally(home, { role: "agent", tenant, name: agent_id, expiresAt });
        if (text === undefined) throw new Error("the keys of the fleet cannot be read");
        writeWhole(path, text);
      };
      await issue();
      return startTicker({ name: "credentials", everyMs: RENEW_MS, run: issue, clock, log });
    },
    remove: (path) => rmSync(path, { force: true }),
  };
}

/** For a bus without credentials, or agents that get theirs in another way. */
export const noAgentCredentials: AgentCredentials = { keep: async () => async () => {}, remove: () => {} };
