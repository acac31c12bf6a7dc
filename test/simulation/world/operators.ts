/** An operator, who places and releases holds, removes checkpoints, requests recoveries, and replaces and revokes keys. */
import { setTimeout as sleep } from "node:timers/promises";
import { REVOCATION_REASONS } from "../../../shared/protocol/signing-keys.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import type { FleetClient } from "../../../shared/sdk/client/client.ts";
import { Operator } from "../../fleet/faults/operators/operator.ts";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { SimulatedAgents } from "./agents.ts";
import type { WorldHost } from "./host.ts";

const PAUSE_MS = 500;
const RECOVERY_SHARE = 0.3;
/** The share of the acts on keys, and that of the revocations among these. */
const KEY_SHARE = 0.3;
const REVOKED_SHARE = 0.5;
const DEADLINE_MS = 5_000;

export interface OperatorOptions {
  readonly name: string;
  /** The acts of all incarnations together that are still to do. */
  readonly left: { acts: number };
  /** Whether it changes signing keys. */
  readonly rotates: boolean;
  /** Whether it requests recoveries. */
  readonly recovers: boolean;
}

const oneOf = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)]!;

async function changeSigningKeys({ admin }: FleetClient): Promise<void> {
  const deadlineMs = DEADLINE_MS;
  if (Math.random() >= REVOKED_SHARE) return void (await admin.rotateKeys({ deadlineMs }));
  const { keys } = await admin.signingKeys({ deadlineMs });
  const { key_id: keyId } = oneOf(keys);
  await admin.revokeKey({ keyId, reason: oneOf(REVOCATION_REASONS), deadlineMs });
}

export async function startOperator(
  host: WorldHost,
  incarnation: string,
  { name, left, rotates, recovers }: OperatorOptions,
): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const { client } = await group.connect(name, (bus) => withCalls(bus, group));
  const operator = new Operator(client, Math.random, { recoveries: recovers ? RECOVERY_SHARE : 0 });
  const act = (): Promise<unknown> => {
    if (rotates && Math.random() < KEY_SHARE) return changeSigningKeys(client);
    if (host.protection.rootKeys !== null && Math.random() < KEY_SHARE)
      return client.admin.rotateEncryption({ deadlineMs: DEADLINE_MS });
    return operator.act();
  };
  const working = (async () => {
    while (left.acts > 0 && !group.stopping.aborted) {
      left.acts -= 1;
      // Most checkpoints are needed, and the fleet is often unavailable. The history has the outcome.
      await act().catch(() => {});
      await sleep(Math.random() * PAUSE_MS);
    }
  })();
  return () => group.stop(working);
}
