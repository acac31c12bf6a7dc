// A fleet that accepts electronic signatures, with two real identity providers, and what its tests do as people.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import { type FleetClient, nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import { startFleet } from "../processes/fleet.ts";
import { input } from "../records/records.ts";
import { CLIENT, type IdentityProvider, startIdentityProvider } from "./identity-provider.ts";
import { statementAt } from "./person.ts";

export type EsignFleet = Awaited<ReturnType<typeof startEsignFleet>>;

/** A provider without passkeys, at which no person logs in. */
export const NO_PASSKEYS = "https://login.example";

const PATIENT = { deadlineMs: 60_000 };
const SOON = { timeout: 60_000, interval: 100 };

/** `provider` is for the tenants default and acme, `stranger` for acme alone, with two factors and a page of its own. */
export async function startEsignFleet(settings: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "fleet-esign-"));
  const [provider, stranger] = await Promise.all([startIdentityProvider(), startIdentityProvider()]);
  const issuers = [
    {
      issuer: provider.url,
      keys_url: provider.keysUrl,
      client_id: CLIENT,
      tenants: ["default", "acme"],
      passkeys: {},
    },
    {
      issuer: stranger.url,
      keys_url: stranger.keysUrl,
      client_id: CLIENT,
      tenants: ["acme"],
      amr: ["mfa"],
      passkeys: { rp_id: "example.org", origins: ["https://sign.example.org"] },
    },
    { issuer: NO_PASSKEYS, keys_url: provider.keysUrl, client_id: CLIENT, tenants: ["acme"] },
  ];
  writeFileSync(join(folder, "esign.json"), JSON.stringify({ issuers }));
  const server = await startFleet({
    ...{ FLEET_ESIGN_ISSUERS: join(folder, "esign.json"), FLEET_GATEWAY_PORT: "-1" },
    ...{ FLEET_SCRUB_EVERY: "off", FLEET_FINALIZE_DRAFTS_AFTER: "off" },
    ...settings,
  });
  const writer = await server.client("agent-1");
  let callers = 0;

  const statementFor = (
    client: FleetClient,
    taskId: string,
    changes: Partial<EsignStatement> = {},
    of: IdentityProvider = provider,
  ): Promise<EsignStatement> => statementAt(of, client, taskId, changes);

  return {
    ...{ folder, provider, stranger, server, writer, statementFor },
    /** On a busy machine the command waits in the queue: the checkpoint is there when a reader has it. */
    async written(taskId: string, changes: Parameters<typeof input>[0] = {}): Promise<string> {
      const { checkpointId } = await writer.createCheckpoint({ taskId, checkpoint: input(changes) });
      const id = String(checkpointId);
      await vi.waitUntil(async () => (await writer.getCheckpoint(id, PATIENT)) !== null, SOON);
      return id;
    },
    /** A person without failed attempts. */
    newCaller(tenant = "default") {
      callers += 1;
      return server.client(`human=person-${callers}`, tenant);
    },
    async signedBy(client: FleetClient, taskId: string, changes: Partial<EsignStatement> = {}) {
      const statement = await statementFor(client, taskId, changes);
      return client.admin.esign.add(statement, await provider.token({ nonce: nonceOfStatement(statement) }));
    },
    async tenantActs(): Promise<Record<string, unknown>[]> {
      const client = await server.client("human=auditor");
      const { entries } = await client.admin.tenantAudit({ limit: 500 });
      return entries.map(({ entry }) => JSON.parse(entry));
    },
    async stop() {
      await server.stop();
      await Promise.all([provider.close(), stranger.close()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
