/** Refused attempts to sign, on a real fleet with real identity providers: each is audited and alerted, and nothing is signed. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import { type FleetClient, nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { CLIENT, type IdentityProvider, OTHER_CLIENT } from "../../harness/esign/identity-provider.ts";
import { newRestClient, restClient } from "../../harness/rest-client.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
let fleet: EsignFleet;
beforeAll(async () => {
  fleet = await startEsignFleet();
}, CALLS_MS);
afterAll(() => fleet?.stop());

describe("a refused attempt", () => {
  type Attempt = (client: FleetClient) => Promise<unknown>;
  const add = async (
    client: FleetClient,
    signed: EsignStatement,
    sent = signed,
    nonce = nonceOfStatement(signed),
  ) => client.admin.esign.add(sent, await fleet.provider.token({ nonce }));
  const seated = async (seat: Partial<IdentityProvider["seat"]>, attempt: () => Promise<unknown>) => {
    Object.assign(fleet.provider.seat, seat);
    try {
      return await attempt();
    } finally {
      Object.assign(fleet.provider.seat, { subject: "ada", loggedInAt: 0 });
    }
  };
  const attempts: Record<string, { reason: string; details?: object; attempt: Attempt }> = {
    "a login of an hour ago": {
      reason: "stale",
      attempt: async (client) =>
        seated({ loggedInAt: -3_600 }, async () => add(client, await fleet.statementFor(client, "refused"))),
    },
    "a login before the statement": {
      reason: "stale",
      attempt: async (client) =>
        seated({ loggedInAt: -120 }, async () => add(client, await fleet.statementFor(client, "refused"))),
    },
    "a statement of an hour ago": {
      reason: "stale",
      attempt: async (client) => {
        const signed_at = new Date(Date.now() - 3_600_000).toISOString();
        return add(client, await fleet.statementFor(client, "refused", { signed_at }));
      },
    },
    "a token long after the login": {
      reason: "stale",
      attempt: async (client) =>
        seated({ loggedInAt: -90 }, async () => {
          const signed_at = new Date(Date.now() - 100_000).toISOString();
          return add(client, await fleet.statementFor(client, "refused", { signed_at }));
        }),
    },
    "a clock that is two minutes ahead": {
      reason: "stale",
      attempt: async (client) =>
        seated({ loggedInAt: 120 }, async () => add(client, await fleet.statementFor(client, "refused"))),
    },
    "a token with another nonce": {
      reason: "nonce",
      attempt: async (client) => {
        const statement = await fleet.statementFor(client, "refused");
        return add(client, statement, statement, "another");
      },
    },
    "an edited statement": {
      reason: "nonce",
      attempt: async (client) => {
        const statement = await fleet.statementFor(client, "refused", { meaning: "review" });
        return add(client, statement, { ...statement, meaning: "approval" });
      },
    },
    "a token for another client": {
      reason: "audience",
      attempt: async (client) => {
        const statement = await fleet.statementFor(client, "refused");
        const nonce = nonceOfStatement(statement);
        return client.admin.esign.add(statement, await fleet.provider.token({ nonce, client: OTHER_CLIENT }));
      },
    },
    "a token of another person": {
      reason: "person",
      details: { began_as: "Ada Lovelace", logged_in_as: "Grace Hopper" },
      attempt: async (client) =>
        seated({ subject: "grace" }, async () => add(client, await fleet.statementFor(client, "refused"))),
    },
    "another printed name": {
      reason: "name",
      attempt: async (client) => {
        const of = await fleet.statementFor(client, "refused");
        return add(client, { ...of, signer: { ...of.signer, printed_name: "Charles Babbage" } });
      },
    },
    "a provider that is not one of the tenant": {
      reason: "issuer",
      attempt: async (client) => {
        const of = await fleet.statementFor(client, "refused");
        const signer = { ...of.signer, id: { issuer: fleet.stranger.url, subject: "ada" } };
        const statement = { ...of, signer };
        const nonce = nonceOfStatement(statement);
        return client.admin.esign.add(statement, await fleet.stranger.token({ nonce }));
      },
    },
    "a token of another provider": {
      reason: "issuer",
      attempt: async (client) => {
        const statement = await fleet.statementFor(client, "refused");
        const nonce = nonceOfStatement(statement);
        return client.admin.esign.add(statement, await fleet.stranger.token({ nonce }));
      },
    },
    "a token whose signature was changed": {
      reason: "token",
      attempt: async (client) => {
        const statement = await fleet.statementFor(client, "refused");
        const token = await fleet.provider.token({ nonce: nonceOfStatement(statement) });
        const [header, payload, signature = ""] = token.split(".");
        const other = `${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
        return client.admin.esign.add(statement, [header, payload, other].join("."));
      },
    },
    "other rules than those of the fleet": {
      reason: "policy",
      attempt: async (client) =>
        add(client, await fleet.statementFor(client, "refused", { policy: "0".repeat(64) })),
    },
    "the hash of other content": {
      reason: "content",
      attempt: async (client) => {
        const of = await fleet.statementFor(client, "refused");
        return add(client, { ...of, subject: { ...of.subject, hash: "0".repeat(64) } });
      },
    },
    "a head that the trail does not have": {
      reason: "head",
      attempt: async (client) => {
        const of = await fleet.statementFor(client, "refused");
        const head = { ...of.subject.head, hash: "0".repeat(64) };
        return add(client, { ...of, subject: { ...of.subject, head } });
      },
    },
    "the statement of another tenant": {
      reason: "subject",
      attempt: async (client) => {
        const of = await fleet.statementFor(client, "refused");
        return add(client, { ...of, subject: { ...of.subject, tenant: "acme" } });
      },
    },
  };

  beforeAll(() => fleet.written("refused"));
  afterAll(async () => {
    expect(await fleet.writer.admin.esign.list("refused")).toEqual([]);
  });

  test.for(Object.entries(attempts))(
    "%s",
    { timeout: CALLS_MS },
    async ([, { reason, details, attempt }], { expect }) => {
      const client = await fleet.newCaller();
      const refusal = { code: "FORBIDDEN", details: { reason, ...details } };
      await expect(attempt(client)).rejects.toMatchObject(refusal);
      const acts = (await fleet.tenantActs()).filter(
        ({ actor }) => (actor as { id: string }).id === client.agentId,
      );
      expect(acts).toMatchObject([{ action: "sign_refuse", subject: { task: "refused", reason } }]);
      const { alerts } = await client.admin.listAlerts({ taskId: "refused" });
      expect(alerts.map(({ alert }) => alert)).toContainEqual(
        expect.objectContaining({
          type: "SIGN_ATTEMPT_FAILED",
          data: { taskId: "refused", caller: client.agentId, reason },
        }),
      );
    },
  );

  test("an agent signs with the token of a person", { timeout: CALLS_MS }, async () => {
    const agent = await fleet.server.client("agent-9");
    await expect(add(agent, await fleet.statementFor(agent, "refused"))).rejects.toMatchObject({
      code: "FORBIDDEN",
      details: { reason: "not_a_person" },
    });
  });

  test("a program signs with an API key of a person", { timeout: CALLS_MS }, async () => {
    const { key } = await newRestClient(fleet.server, { name: "human=ada", role: "operator" });
    const rest = restClient(fleet.server.gatewayUrl, key);
    const request = await rest.get("/tasks/refused/signing-request");
    expect(request.body).toMatchObject({ subject: { task: "refused" }, issuers: [{ client_id: CLIENT }] });
    const body = { payload: "e30=", proof: { kind: "oidc", id_token: "a.b.c" } };
    expect(await rest.post("/tasks/refused/signatures", body)).toMatchObject({
      status: 403,
      body: { details: { reason: "not_a_person" } },
    });
    expect((await rest.get("/tasks/refused/signatures")).body).toEqual({ signatures: [] });
    expect((await rest.get("/signers")).body).toEqual({ signers: [] });
    const person = { issuer: "https://login.example", subject: "eve", reason: "other" };
    expect((await rest.post("/signers/revoke", person)).body).toMatchObject({ signer: { subject: "eve" } });
    const passkey = `/passkeys/${"0".repeat(64)}/revoke`;
    expect(await rest.post(passkey, { reason: "lost" })).toMatchObject({ status: 404 });
  });
});

test("after five failed attempts a caller waits, and the trail grows no further", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("limited");
  const client = await fleet.newCaller();
  const statement = await fleet.statementFor(client, "limited");
  for (let n = 0; n < 5; n += 1)
    await expect(client.admin.esign.add(statement, "a.b.c")).rejects.toMatchObject({
      details: { reason: "token" },
    });
  const token = await fleet.provider.token({ nonce: nonceOfStatement(statement) });
  await expect(client.admin.esign.add(statement, token)).rejects.toMatchObject({
    code: "FORBIDDEN",
    details: { failed: 5, until: expect.any(String) as string },
  });
  const acts = (await fleet.tenantActs()).filter(
    ({ actor }) => (actor as { id: string }).id === client.agentId,
  );
  expect(acts).toHaveLength(5);
  const metrics = await (await fetch(`${fleet.server.opsUrl()}/metrics`)).text();
  expect(metrics).toMatch(/fleet_esignatures_total\{[^}]*outcome="token"[^}]*\} [1-9]/);
});
