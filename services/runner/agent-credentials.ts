/**
 * Short-lived credentials for each agent that a runner starts, in a file of the agent's folder. They permit only
 * what an agent of this name may do. The runner renews the file while the agent runs and removes it at its end,
 * so the last ones expire soon after.
 */
import { existsSync, rmSync } from "node:fs";
import { issueLocally } from "../../shared/bus/access/local-credentials.ts";
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { writeWhole } from "../../shared/runtime/process/whole-file.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { AgentRecord } from "./journal.ts";

const VALID_MS = 60 * 60_000;
const RENEW_MS = VALID_MS / 3;

/** Where a runner gets credentials for its agents: from the fleet's keys on its machine, from a signing service, or nowhere. */
export type CredentialsSource = "keys" | "signer" | "none";

export interface AgentCredentials {
  /**
   * Writes the file, and renews it until it is stopped. null: there is no file, because no signing service answers or the bus needs no
   * credentials.
   */
  keep(record: AgentRecord, path: string): Promise<Stop | null>;
  remove(path: string): void;
}

interface Parts {
  readonly clock: Clock;
  readonly log: Logger;
}

/** For a bus without credentials, or agents that get theirs in another way. */
export const noAgentCredentials: AgentCredentials = { keep: async () => null, remove: () => {} };

/** `home`: the home of the fleet whose keys this user can read. */
export function localAgentCredentials(home: string, parts: Parts): AgentCredentials {
  return keptInFiles(parts, async ({ tenant, agent_id }) => {
    const expiresAt = Math.ceil((parts.clock.now() + VALID_MS) / 1_000);
    const text = await issueLocally(home, { role: "agent", tenant, name: agent_id, expiresAt });
    if (text === undefined) throw new Error("the keys of the fleet cannot be read");
    return text;
  });
}

/** `runner`: the name of the runner in its own credentials. */
export function signedAgentCredentials(bus: Bus, runner: string, parts: Parts): AgentCredentials {
  const files = keptInFiles(parts, async ({ tenant, agent_id: agentId }) => {
    const { requestAgentCredentials } = await import("../../shared/bus/access/agent-credentials.ts");
    return requestAgentCredentials(bus, { tenant, runner, agentId });
  });
  return {
    ...files,
    async keep(record, path) {
      try {
        return await files.keep(record, path);
      } catch (error) {
        if (!(error instanceof BusError) || !["no_responders", "permission"].includes(error.kind))
          throw error;
        parts.log.warn(
          { agent_id: record.agent_id, problem: error.message },
          "no signing service answers, so the agent has no credentials of its own; start one, or set FLEET_NATS_CREDS in the env of its type",
        );
        return null;
      }
    },
  };
}

function keptInFiles(
  { clock, log }: Parts,
  issue: (record: AgentRecord) => Promise<string>,
): AgentCredentials {
  return {
    async keep(record, path) {
      const renew = async (): Promise<void> => writeWhole(path, await issue(record));
      // An agent of an earlier runner has its file, which the ticker renews at once and, after a failure, again later.
      if (!existsSync(path)) await renew();
      return startTicker({ name: "credentials", everyMs: RENEW_MS, run: renew, clock, log });
    },
    remove: (path) => rmSync(path, { force: true }),
  };
}
