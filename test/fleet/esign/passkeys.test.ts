/** Signatures with passkeys on a real fleet with a real identity provider, and an authenticator in software. The browser is in `passkey-browser.test.ts`. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  enrolmentFrom,
  enrolmentNonce,
  enrolmentPayload,
  passkeyIdOf,
} from "../../../shared/integrity/esign/passkey.ts";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import type { StoredPasskey } from "../../../shared/protocol/esign-proof.ts";
import { decodeChecked, encodeChecked } from "../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { type FleetClient, nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { type EsignFleet, NO_PASSKEYS, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { enrolmentAt, signWithPasskeyAt } from "../../harness/esign/person.ts";
import { loginOf } from "../../harness/esign/signed-statement.ts";
import { type Asked, SoftwareAuthenticator } from "../../harness/esign/software-authenticator.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
let fleet: EsignFleet;
beforeAll(async () => {
  fleet = await startEsignFleet();
}, CALLS_MS);
afterAll(() => fleet?.stop());

const cliEnv = () => ({
  ...{ FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home, FLEET_PERSON: "ada" },
  FLEET_SPOOL_DIR: join(fleet.server.home, "spool"),
});

async function json(...args: string[]) {
  const { exit, out, err } = await callCli([...args, "--json"], { env: cliEnv() });
  expect({ exit, err }).toMatchObject({ exit: 0 });
  return JSON.parse(out);
}

/** Signs with an enrolled authenticator. */
async function sign(
  client: FleetClient,
  taskId: string,
  authenticator: SoftwareAuthenticator,
  asked: Partial<Asked> = {},
) {
  const statement = await fleet.statementFor(client, taskId);
  const answer = authenticator.answer({ challenge: nonceOfStatement(statement), ...asked });
  return client.admin.esign.addWithPasskey(statement, answer);
}

/** A person of the tenant acme. */
async function writtenInAcme(taskId: string): Promise<FleetClient> {
  const acme = await fleet.server.client("agent-1", "acme");
  await acme.createCheckpoint({ taskId, checkpoint: input() });
  return fleet.newCaller("acme");
}

const refusal = (reason: string) => ({ code: "FORBIDDEN", details: { reason } });

test("a passkey is enrolled with its first signature, and signs again without a login", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("auth");
  const client = await fleet.newCaller();
  for (const kind of ["EC", "OKP", "RSA"] as const) {
    const authenticator = new SoftwareAuthenticator(kind);
    await signWithPasskeyAt(fleet.provider, client, "auth", authenticator);
    await sign(client, "auth", authenticator);
  }
  const block = { state: "valid", printed_name: "Ada Lovelace", method: "webauthn", checkpoint_id: id };
  const { signatures } = await json("signatures", "auth");
  expect(signatures).toMatchObject(Array.from({ length: 6 }, () => block));
  const { signers } = await json("signers", "list");
  expect(signers).toMatchObject([
    { subject: "ada", passkeys: [1, 2, 3].map(() => ({ enrolled_by: client.agentId, revoked_at: null })) },
  ]);
  const enrolled = (await fleet.tenantActs()).filter(({ action }) => action === "passkey_add");
  expect(enrolled.map(({ subject }) => subject)).toMatchObject(
    signers[0].passkeys.map(({ passkey_id }: { passkey_id: string }) => ({ passkey_id, subject: "ada" })),
  );
  expect(await json("audit", "tenant", "--verify")).toMatchObject({ ok: true });
  const file = join(fleet.folder, "auth.jsonl");
  await json("export", "--task", "auth", "--out", file);
  const { electronic_signatures, esignature_problems } = await json("export", "verify", file);
  expect(electronic_signatures).toMatchObject(Array.from({ length: 6 }, () => block));
  expect(esignature_problems).toBe(0);
});

describe("a refused answer of a passkey", () => {
  interface Attempt {
    readonly reason: string;
    readonly asked?: Partial<Asked>;
    readonly changes?: (statement: EsignStatement) => Partial<EsignStatement>;
  }
  const attempts: Record<string, Attempt> = {
    "without a verification of the person": { reason: "assurance", asked: { isVerified: false } },
    "without a touch": { reason: "assurance", asked: { isPresent: false } },
    "for another statement": { reason: "nonce", asked: { challenge: "YW5vdGhlcg" } },
    "on a page of another origin": { reason: "origin", asked: { origin: "https://evil.example" } },
    "on a page within one of another origin": { reason: "origin", asked: { crossOrigin: true } },
    "for another domain": {
      reason: "origin",
      asked: { rpId: "evil.example", origin: "https://evil.example" },
    },
    "that creates a passkey": { reason: "assertion", asked: { type: "webauthn.create" } },
    "with a count that was seen before": { reason: "counter", asked: { count: 1 } },
    "about a statement of an hour ago": {
      reason: "stale",
      changes: () => ({ signed_at: new Date(Date.now() - 3_600_000).toISOString() }),
    },
    "about another printed name": {
      reason: "enrolment",
      changes: ({ signer }) => ({ signer: { ...signer, printed_name: "Charles Babbage" } }),
    },
    "in the name of another person": {
      reason: "passkey",
      changes: ({ signer }) => ({ signer: { ...signer, id: { ...signer.id, subject: "grace" } } }),
    },
  };
  const authenticator = new SoftwareAuthenticator();

  beforeAll(async () => {
    await fleet.written("refused");
    await signWithPasskeyAt(fleet.provider, await fleet.newCaller(), "refused", authenticator);
  }, CALLS_MS);
  afterAll(async () => {
    expect(await fleet.writer.admin.esign.list("refused")).toHaveLength(1);
  });

  test.for(Object.entries(attempts))(
    "%s",
    { timeout: CALLS_MS },
    async ([, { reason, asked = {}, changes }], { expect }) => {
      const client = await fleet.newCaller();
      const of = await fleet.statementFor(client, "refused");
      const statement = { ...of, ...changes?.(of) };
      const answer = authenticator.answer({ challenge: nonceOfStatement(statement), count: 100, ...asked });
      await expect(client.admin.esign.addWithPasskey(statement, answer)).rejects.toMatchObject(
        refusal(reason),
      );
      const acts = (await fleet.tenantActs()).filter(
        ({ actor }) => (actor as { id: string }).id === client.agentId,
      );
      expect(acts).toMatchObject([{ action: "sign_refuse", subject: { task: "refused", reason } }]);
    },
  );

  test("that was changed, or is of another passkey", { timeout: CALLS_MS }, async () => {
    const client = await fleet.newCaller();
    const statement = await fleet.statementFor(client, "refused");
    const asked = { challenge: nonceOfStatement(statement), count: 200 };
    const other = new SoftwareAuthenticator().answer(asked);
    const answer = authenticator.answer(asked);
    const add = (changes: object) => client.admin.esign.addWithPasskey(statement, { ...answer, ...changes });
    await expect(add({ signature: other.signature })).rejects.toMatchObject(refusal("assertion"));
    await expect(add({ signature: "AAAA" })).rejects.toMatchObject(refusal("assertion"));
    await expect(add({ authenticatorData: other.authenticatorData.slice(4) })).rejects.toMatchObject(
      refusal("assertion"),
    );
    await expect(add(other)).rejects.toMatchObject(refusal("passkey"));
  });

  test("of an agent", { timeout: CALLS_MS }, async () => {
    const agent = await fleet.server.client("agent-9");
    await expect(sign(agent, "refused", authenticator, { count: 300 })).rejects.toMatchObject(
      refusal("not_a_person"),
    );
  });

  test("of a person whose provider has no passkeys", { timeout: CALLS_MS }, async () => {
    const client = await writtenInAcme("audit");
    const { issuers } = await client.admin.esign.request({ taskId: "audit" });
    const { policy } = issuers.find(({ issuer }) => issuer === NO_PASSKEYS)!;
    const signer = { id: { issuer: NO_PASSKEYS, subject: "ada" }, printed_name: "Ada Lovelace" };
    const statement = await fleet.statementFor(client, "audit", { signer, policy });
    const answer = authenticator.answer({ challenge: nonceOfStatement(statement), count: 400 });
    await expect(client.admin.esign.addWithPasskey(statement, answer)).rejects.toMatchObject(
      refusal("passkeys_off"),
    );
  });
});

describe("a refused enrolment", () => {
  beforeAll(() => fleet.written("enrolments"));

  async function attempt(
    change: (
      enrolment: Awaited<ReturnType<typeof enrolmentAt>>,
      statement: EsignStatement,
    ) => Promise<Awaited<ReturnType<typeof enrolmentAt>>>,
  ) {
    const client = await fleet.newCaller();
    const authenticator = new SoftwareAuthenticator();
    const statement = await fleet.statementFor(client, "enrolments");
    const good = await enrolmentAt(fleet.provider, statement, authenticator);
    const enrolment = await change(good, statement);
    const answer = authenticator.answer({ challenge: nonceOfStatement(statement) });
    return client.admin.esign.addWithPasskey(statement, { ...answer, enrolment });
  }

  test("with a login for another passkey, or none for this one", { timeout: CALLS_MS }, async () => {
    const other = new SoftwareAuthenticator();
    const swapped = attempt(async ({ statement: { passkey, ...rest }, idToken }) => ({
      statement: { ...rest, passkey: { ...passkey, jwk: other.jwk } },
      idToken,
    }));
    await expect(swapped).rejects.toMatchObject(refusal("nonce"));
    const foreign = attempt(async (_, statement) => enrolmentAt(fleet.provider, statement, other));
    await expect(foreign).rejects.toMatchObject(refusal("enrolment"));
    await expect(attempt(async (good) => ({ ...good, idToken: "a.b.c" }))).rejects.toMatchObject(
      refusal("token"),
    );
  });

  test("with the login of another person, or an old one", { timeout: CALLS_MS }, async () => {
    const stolen = attempt(async (_, statement) => {
      fleet.provider.seat.subject = "grace";
      try {
        return await enrolmentAt(fleet.provider, statement, new SoftwareAuthenticator());
      } finally {
        fleet.provider.seat.subject = "ada";
      }
    });
    await expect(stolen).rejects.toMatchObject(refusal("person"));
    const old = attempt(async (_, statement) =>
      enrolmentAt(fleet.provider, statement, new SoftwareAuthenticator(), {
        enrolled_at: new Date(Date.now() - 3_600_000).toISOString(),
      }),
    );
    await expect(old).rejects.toMatchObject(refusal("stale"));
  });

  test("of a passkey that another person has", { timeout: CALLS_MS }, async () => {
    const authenticator = new SoftwareAuthenticator();
    await signWithPasskeyAt(fleet.provider, await fleet.newCaller(), "enrolments", authenticator);
    fleet.provider.seat.subject = "grace";
    try {
      const client = await fleet.newCaller();
      const signer = { id: { issuer: fleet.provider.url, subject: "grace" }, printed_name: "Grace Hopper" };
      const statement = await fleet.statementFor(client, "enrolments", { signer });
      const enrolment = await enrolmentAt(fleet.provider, statement, authenticator);
      const answer = authenticator.answer({ challenge: nonceOfStatement(statement) });
      await expect(
        client.admin.esign.addWithPasskey(statement, { ...answer, enrolment }),
      ).rejects.toMatchObject(refusal("passkey"));
    } finally {
      fleet.provider.seat.subject = "ada";
    }
  });
});

test("a page of the organisation has its own domain, origins and rules for logins", {
  timeout: CALLS_MS,
}, async () => {
  const client = await writtenInAcme("own-page");
  const authenticator = new SoftwareAuthenticator();
  const signAt = async (origin: string, rpId = "example.org") => {
    const statement = await fleet.statementFor(client, "own-page", {}, fleet.stranger);
    const passkey = { credential_id: authenticator.credentialId, jwk: authenticator.jwk, rp_id: rpId };
    const enrolment = await enrolmentAt(fleet.stranger, statement, authenticator, { passkey });
    const answer = authenticator.answer({ challenge: nonceOfStatement(statement), origin, rpId });
    return client.admin.esign.addWithPasskey(statement, { ...answer, enrolment });
  };
  await expect(signAt("https://sign.example.org")).rejects.toMatchObject(refusal("assurance"));
  fleet.stranger.seat.amr = ["pwd", "mfa"];
  await expect(signAt("https://example.org")).rejects.toMatchObject(refusal("origin"));
  await expect(signAt("http://localhost:4000", "localhost")).rejects.toMatchObject(refusal("enrolment"));
  await signAt("https://sign.example.org");
  expect(await client.admin.esign.list("own-page", { content: true })).toMatchObject([{ state: "valid" }]);
});

test("a revoked passkey signs no more, and its signatures stay valid", { timeout: CALLS_MS }, async () => {
  await fleet.written("lost");
  const client = await fleet.newCaller();
  const [lost, kept] = [new SoftwareAuthenticator(), new SoftwareAuthenticator()];
  await signWithPasskeyAt(fleet.provider, client, "lost", lost);
  await signWithPasskeyAt(fleet.provider, client, "lost", kept);
  const { signers } = await client.admin.esign.signers();
  const { passkey_id } = signers
    .flatMap(({ passkeys = [] }) => passkeys)
    .find(({ credential_id }) => credential_id === lost.credentialId)!;
  await json("signers", "revoke-passkey", passkey_id, "--reason", "lost");
  await expect(sign(client, "lost", lost)).rejects.toMatchObject(refusal("passkey_revoked"));
  // Also with a new login of the person.
  await expect(signWithPasskeyAt(fleet.provider, client, "lost", lost)).rejects.toMatchObject(
    refusal("passkey_revoked"),
  );
  await sign(client, "lost", kept);
  const states = (await client.admin.esign.list("lost", { content: true })).map(({ state }) => state);
  expect(states).toEqual(["valid", "valid", "valid"]);
  expect(await fleet.tenantActs()).toContainEqual(
    expect.objectContaining({ action: "passkey_revoke", subject: expect.objectContaining({ passkey_id }) }),
  );
  const unknown = { passkeyId: "0".repeat(64), reason: "lost" } as const;
  await expect(client.admin.esign.revokePasskey(unknown)).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a record that a program writes to the store is refused, and found by the scrub", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("forged");
  const client = await fleet.newCaller();
  const honest = new SoftwareAuthenticator();
  await signWithPasskeyAt(fleet.provider, client, "forged", honest);
  const forger = new SoftwareAuthenticator();
  const keys = tenantKeys("default");
  const store = await openStore(`lmdb:${join(fleet.server.home, "store")}?shared`);
  await store.transact({ label: "forge", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
    const record = decodeChecked<StoredPasskey>(
      (await tx.get(keys.passkey(passkeyIdOf(honest.credentialId))))!,
    );
    const enrolment = enrolmentFrom(Buffer.from(record.enrolment.payload, "base64"))!;
    const passkey = { credential_id: forger.credentialId, jwk: forger.jwk, rp_id: "localhost" };
    const payload = enrolmentPayload({ ...enrolment, passkey });
    const login = await loginOf(record.signer, enrolmentNonce(payload));
    const forged = {
      ...{ ...record, passkey_id: passkeyIdOf(forger.credentialId), credential_id: forger.credentialId },
      enrolment: { payload: payload.toString("base64"), ...login },
    };
    tx.set(keys.passkey(forged.passkey_id), encodeChecked(forged));
  });
  await store.close({ drainMs: 1_000 });
  const caller = await fleet.newCaller();
  await expect(sign(caller, "forged", forger, { count: 50 })).rejects.toMatchObject(
    refusal("passkey_record"),
  );
  await sign(client, "forged", honest);
  const { exit, out } = await callCli(["scrub", "start", "--wait"], { env: cliEnv() });
  expect({ exit, out }).toMatchObject({
    exit: 8,
    out: expect.stringContaining("no audit entry records its enrolment") as string,
  });
});

test("a command names a provider without passkeys", { timeout: CALLS_MS }, async () => {
  await writtenInAcme("named");
  const args = ["sign", "named", "--meaning", "review", "--with", "passkey", "--tenant", "acme"];
  const of = async (issuer: string) => {
    const { exit, err } = await callCli([...args, "--issuer", issuer], { env: cliEnv() });
    expect(exit).toBe(64);
    return err;
  };
  const without = await of(NO_PASSKEYS);
  expect(without).toContain(`the fleet accepts no passkeys of the people of ${NO_PASSKEYS}`);
  expect(without).toContain("--with login");
  expect(await of("https://unknown.example")).toContain("the fleet does not accept https://unknown.example");
});

test("a repeated command is answered again, and the same answer signs nothing else", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("repeat");
  const client = await fleet.newCaller();
  const authenticator = new SoftwareAuthenticator();
  const statement = await fleet.statementFor(client, "repeat");
  const enrolment = await enrolmentAt(fleet.provider, statement, authenticator);
  const answer = { ...authenticator.answer({ challenge: nonceOfStatement(statement) }), enrolment };
  const first = await client.admin.esign.addWithPasskey(statement, answer);
  const { commandId } = first;
  const again = await client.admin.esign.addWithPasskey(statement, answer, { commandId });
  expect(again).toMatchObject({ replayed: true, auditSeq: first.auditSeq });
  await expect(client.admin.esign.addWithPasskey(statement, answer)).rejects.toMatchObject(
    refusal("replayed"),
  );
  const later = { ...statement, meaning: "review" } as const;
  await expect(client.admin.esign.addWithPasskey(later, answer)).rejects.toMatchObject(refusal("nonce"));
  expect(await client.admin.esign.list("repeat")).toHaveLength(1);
});
