/**
 * A real fleet with everything that a bundle of evidence can hold: missions, removed checkpoints, signatures of a person, rotated and
 * revoked keys, anchors of the log.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { passkeyIdOf } from "../../../shared/integrity/esign/passkey.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { callCli } from "../../services/cli/call.ts";
import { TimestampAuthority } from "../anchors/timestamp-authority.ts";
import { CLIENT, startIdentityProvider } from "../esign/identity-provider.ts";
import { signAt, signWithPasskeyAt } from "../esign/person.ts";
import { SoftwareAuthenticator } from "../esign/software-authenticator.ts";
import { startFleet, type TestFleet } from "../processes/fleet.ts";
import { input } from "../records/records.ts";

export interface EvidenceFleet {
  readonly server: TestFleet;
  readonly client: FleetClient;
  readonly authority: TimestampAuthority;
  /** The ids of the keys that signed, in their order. The second one is revoked, as replaced and then as compromised. */
  readonly keys: readonly string[];
  /** Its private key, as a thief has it. */
  readonly revokedPem: string;
  run(...args: string[]): ReturnType<typeof callCli>;
  /** Signs the newest checkpoint of a task with a fresh login of a person. */
  sign(client: FleetClient, task: string): Promise<unknown>;
  stop(): Promise<void>;
}

export async function startEvidenceFleet(): Promise<EvidenceFleet> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-evidence-"));
  const [provider, authority] = await Promise.all([startIdentityProvider(), TimestampAuthority.start()]);
  const issuer = {
    issuer: provider.url,
    keys_url: provider.keysUrl,
    client_id: CLIENT,
    tenants: ["default"],
    passkeys: {},
  };
  const issuers = join(folder, "esign.json");
  writeFileSync(issuers, JSON.stringify({ issuers: [issuer] }));
  const server = await startFleet({
    ...{ FLEET_GATEWAY_PORT: "-1", FLEET_SCRUB_EVERY: "off", FLEET_ESIGN_ISSUERS: issuers },
    // It would write a further version of a signed draft in the midst of a slow test.
    FLEET_FINALIZE_DRAFTS_AFTER: "off",
    ...{ FLEET_AUDIT_TSA_URL: authority.url, FLEET_AUDIT_TSA_CA: authority.caFile },
    ...{ FLEET_AUDIT_ANCHOR_EVERY: "1s", FLEET_AUDIT_ANCHOR_FOLDER: join(folder, "anchors") },
  });
  const client = await server.client("writer-1");
  const env = {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
  };
  const run = (...args: string[]) => callCli(args, { env });
  const pemInFile = () => readFileSync(join(server.home, "signing-key.pem"), "utf8");
  const keyInFile = () => signingKeyFrom(pemInFile()).id;
  const ok = async (...args: string[]) => {
    const { exit, err } = await run(...args);
    expect({ exit, err, args }).toMatchObject({ exit: 0 });
  };
  const keyAfter = async (before: string) => {
    await vi.waitUntil(() => keyInFile() !== before, { timeout: 60_000 });
    return keyInFile();
  };
  const first = keyInFile();
  const oldest = await writeVersions(client, "auth", 4);
  await anchored(client);
  const person = await server.client("human=ada");
  await signAt(provider, person, "auth", { reason: "All 😀 tests pass" });
  // What the person has signed is not the newest version any more.
  const { metadata } = (await client.getLatestCheckpoint("auth"))!;
  await client.updateCheckpoint(metadata.checkpoint_id, { execution_state: { progress_percent: 90 } });
  await ok("keys", "rotate", first);
  const second = await keyAfter(first);
  await writeVersions(client, "auth", 1);
  await writeVersions(client, "billing", 2);
  const revokedPem = pemInFile();
  await ok("keys", "revoke", second, "--reason", "replaced");
  const third = await keyAfter(second);
  await ok("keys", "revoke", second, "--reason", "compromised");
  await writeVersions(client, "billing", 1);
  await signAt(provider, person, "billing");
  const authenticator = new SoftwareAuthenticator();
  await signWithPasskeyAt(provider, person, "billing", authenticator);
  await ok("signers", "revoke-passkey", passkeyIdOf(authenticator.credentialId), "--reason", "lost");
  await ok("mission", "start", "msn-1", "--title", "ship it");
  await ok("checkpoint", "remove", oldest, "--task", "auth");
  await writeBatch(client);
  await anchored(client);
  const stop = async () => {
    await server.stop();
    await provider.close();
    await authority.close();
    rmSync(folder, { recursive: true, force: true });
  };
  const sign = (by: FleetClient, task: string) => signAt(provider, by, task);
  return { server, client, authority, keys: [first, second, third], revokedPem, run, sign, stop };
}

/** Waits until all entries are in the log, and then for a time-stamp and a line of the folder for it. */
async function anchored({ admin }: FleetClient): Promise<void> {
  const isWhole = async () => (await admin.auditLog()).delay_ms === 0;
  await vi.waitUntil(isWhole, { timeout: 100_000, interval: 200 });
  const { size } = await admin.auditLog();
  const isCovered = async (target: "folder" | "timestamp") => {
    const { anchors } = await admin.auditAnchors({ target });
    return (anchors[0]?.size ?? 0) >= size;
  };
  await vi.waitUntil(async () => (await isCovered("timestamp")) && (await isCovered("folder")), {
    ...{ timeout: 100_000, interval: 500 },
  });
}

const TASKS_AT_ONCE = ["one", "two", "three", "four"];
const SIGNATURE_BYTES = 64;

/** Writes until commits of several tasks were signed together. */
async function writeBatch(client: FleetClient): Promise<void> {
  await vi.waitUntil(
    async () => {
      await Promise.all(
        TASKS_AT_ONCE.map((taskId) =>
          client.createCheckpoint({ taskId, checkpoint: input({ goal: "at once" }) }),
        ),
      );
      const { signatures = [] } = await client.getAudit("one", { signatures: true });
      const sizes = signatures.map(
        ({ envelope }) => Buffer.from(envelope!.signatures[0]!.sig, "base64").length,
      );
      return sizes.some((size) => size > SIGNATURE_BYTES);
    },
    { timeout: 60_000 },
  );
}

/** Returns the id of the first checkpoint. */
async function writeVersions(client: FleetClient, taskId: string, count: number): Promise<string> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const made = await client.createCheckpoint({
      taskId,
      checkpoint: input({ goal: `goal ${n} <b>of</b> ${taskId} – ünï` }),
    });
    if (n % 2 === 0)
      await client.updateCheckpoint(String(made.checkpointId), { execution_state: { progress_percent: n } });
    ids.push(String(made.checkpointId));
  }
  return ids[0]!;
}
