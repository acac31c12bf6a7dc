/**
 * Short-lived credentials for each agent that a runner starts, in a file of the agent's folder. They permit only
 * what an agent of this name may do. The runner renews the file while the agent runs and removes it at its end,
 * so the last ones expire soon after.
 */
import { existsSync, rmSync } from "node:fs";
import { issueLocally } from "../../../shared/bus/access/local-credentials.ts";
import { type Bus, BusError } from "../../../shared/bus/bus.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { withRetries } from "../../../shared/runtime/retry.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { isUncertain } from "../fleet-connection.ts";
import type { AgentRecord } from "../journal.ts";

const VALID_MS = 60 * 60_000;
const RENEW_MS = VALID_MS / 3;
/** A renewal that failed is repeated after this time. */
const CHECK_MS = 60_000;
/** Time for a signing service or a bus that is being restarted: an agent that started without credentials never gets any. */
const PATIENCE = { attempts: 10, baseMs: 500, maxMs: 1_000, deadlineMs: 3_000 } as const;

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
    const { requestAgentCredentials } = await import("../../../shared/bus/access/agent-credentials.ts");
    return requestAgentCredentials(bus, { tenant, runner, agentId });
  });
  /** True: the last agent waited in vain. A cluster without a signing service delays one agent only. */
  let isMissing = false;
  const retryable = (error: unknown): boolean => !isMissing && isUncertain(error);
  return {
    ...files,
    async keep(record, path) {
      try {
        const stop = await withRetries({ ...PATIENCE, clock: parts.clock, retryable }, () =>
          files.keep(record, path),
        );
        isMissing = false;
        return stop;
      } catch (error) {
        if (!(error instanceof BusError) || !["no_responders", "permission"].includes(error.kind))
          throw error;
        isMissing = true;
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
      let writtenAt: number | undefined;
      const renew = async (): Promise<void> => {
        writeWhole(path, await issue(record));
        writtenAt = clock.now();
      };
      const renewIfDue = async (): Promise<void> => {
        // By the wall clock, because credentials also expire while the machine sleeps. It may be set back.
        if (writtenAt === undefined || Math.abs(clock.now() - writtenAt) >= RENEW_MS) await renew();
      };
      // An agent of an earlier runner has its file, which the ticker renews at once and, after a failure, again soon.
      if (!existsSync(path)) await renew();
      return startTicker({ name: "credentials", everyMs: CHECK_MS, run: renewIfDue, clock, log });
    },
    remove: (path) => rmSync(path, { force: true }),
  };
}
