// `fleet keys encryption`: the keys of encryption at rest, and how far the rows of the store are encrypted.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { EncryptionDiagnosis } from "../../../../shared/protocol/diagnosis.ts";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { StoreRows } from "../../rendering/keys/encryption.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

const POLL_MS = 500;
/** A watchdog notices a request within seconds. After this time, or that of --timeout, there are many keys, or no watchdog runs. */
const ROTATED_WITHIN_MS = 60_000;

export function addEncryption(group: Command, action: ActionFactory): void {
  const command = group
    .command("encryption")
    .summary("Show or rotate the keys of encryption at rest.")
    .description(
      "Show how far the rows of the store are encrypted, by which root key its keys are wrapped, and how many keys still need another root key.",
    )
    .action(action(status));
  withExamples(command, (fleet) => ({
    "Whether an old root key can be removed from the setting": `${fleet} keys encryption --json | jq .bucket_keys_of_other_roots`,
  }));
  const rotateCommand = command
    .command("rotate")
    .summary("Replace the bucket keys.")
    .description(
      "Have a watchdog make new bucket keys and wrap all data keys by them, while the fleet runs. Rows stay as they are. Damaged keys are left (exit code 8), and so are those whose root key cannot be used (exit code 69). Root keys are replaced in the setting FLEET_ENCRYPTION_KEY.",
    )
    .option("--no-wait", "do not wait until all data keys are wrapped again")
    .action(action(rotate));
  withExamples(rotateCommand, (fleet) => ({ "Once a year": `${fleet} keys encryption rotate` }));
}

async function status(session: Session): Promise<void> {
  await show(session, await stateOf(session, await session.client()));
}

async function show(session: Session, rows: StoreRows): Promise<void> {
  const { renderEncryption } = await import("../../rendering/keys/encryption.ts");
  await session.show(rows.state, () => renderEncryption(rows, session.view));
}

/** Services of one store have the same answer, but for one that has just started to convert. */
async function stateOf(session: Session, { admin }: FleetClient): Promise<StoreRows> {
  const services = await admin.diagnose(session.deadline);
  const states = services.flatMap(({ diagnosis: { encryption: state, store } }) =>
    state === undefined ? [] : [{ state, engine: store.engine }],
  );
  const found = states.find(({ state }) => state.state !== "off") ?? states[0];
  if (found !== undefined) return found;
  throw new FleetError("UNAVAILABLE", "no service says whether the store is encrypted", {
    details: { services: services.length, next: "fleet doctor" },
  });
}

const isRotated = ({ rotations_pending = 0, tenants_in_rotation = 0 }: EncryptionDiagnosis): boolean =>
  rotations_pending === 0 && tenants_in_rotation === 0;

/** The watchdog has done what is possible. */
const isStuck = ({
  rotations_pending = 0,
  rotation_retry_at: retryAt = null,
}: EncryptionDiagnosis): boolean => rotations_pending === 0 && retryAt !== null;

async function rotate(session: Session, { wait }: { readonly wait: boolean }): Promise<void> {
  const client = await session.client();
  await client.admin.rotateEncryption(session.deadline);
  const beganAt = performance.now();
  const { deadlineMs = ROTATED_WITHIN_MS } = session.deadline;
  for (;;) {
    const rows = await stateOf(session, client);
    const isOver = performance.now() - beganAt > deadlineMs;
    if (!wait || isRotated(rows.state)) return show(session, rows);
    if (isStuck(rows.state)) return showStuck(session, rows);
    if (isOver) {
      session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
      const text = "the keys are not rotated yet; a watchdog continues, if one runs";
      session.warn({ code: "rotation_open", text, details: { next: "fleet keys encryption" } });
      return show(session, rows);
    }
    await sleep(POLL_MS);
  }
}

async function showStuck(session: Session, rows: StoreRows): Promise<void> {
  const { data_keys_damaged: damaged = 0, tenants_unavailable: unavailable = 0 } = rows.state;
  session.exitCode = ERROR_TABLE[damaged > 0 ? "CORRUPT" : "UNAVAILABLE"].exit;
  const text = "some keys could not be wrapped again, and keep the bucket keys that wrapped them";
  session.warn({
    code: "rotation_incomplete",
    text,
    details: { damaged, unavailable, next: "fleet doctor" },
  });
  return show(session, rows);
}
