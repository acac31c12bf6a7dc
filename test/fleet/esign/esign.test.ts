/** Electronic signatures of people on a real fleet, with a real identity provider: what is accepted, shown and exported. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readMcpConfig } from "../../../services/mcp/config.ts";
import { readResource } from "../../../services/mcp/resources.ts";
import { McpSession } from "../../../services/mcp/session.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { EsignKey } from "../../../shared/protocol/esign-proof.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { EsignAdmin } from "../../../shared/sdk/esign/esign-admin.ts";
import { nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import type { IdentityProvider } from "../../harness/esign/identity-provider.ts";
import { signWithPasskeyAt } from "../../harness/esign/person.ts";
import { SoftwareAuthenticator } from "../../harness/esign/software-authenticator.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
let fleet: EsignFleet;
beforeAll(async () => {
  fleet = await startEsignFleet();
}, CALLS_MS);
afterAll(() => fleet?.stop());

const cli = (args: string[], onError?: (text: string) => void) =>
  callCli([...args, "--timeout", "60s"], {
    env: {
      ...{ FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home, FLEET_PERSON: "ada" },
      FLEET_SPOOL_DIR: join(fleet.server.home, "spool"),
    },
    ...(onError !== undefined && { onError }),
  });

async function json(...args: string[]) {
  const { exit, out, err } = await cli([...args, "--json"]);
  expect({ exit, err }).toMatchObject({ exit: 0 });
  return JSON.parse(out);
}

test("a person signs on the command line, and everything shows it", { timeout: CALLS_MS }, async () => {
  const goal = "Log in with <i>OIDC</i>";
  const id = await fleet.written("auth", { goal });
  const events: FleetEvent[] = [];
  const stop = await fleet.writer.onEvent((event) => void events.push(event), { taskId: "auth" });
  const pages: Promise<string>[] = [];
  const signed = await cli(
    ["sign", "auth", "--meaning", "approval", "--reason", "Checked <b>twice</b>", "--json"],
    (text) => {
      const { url } = JSON.parse(text) as { url?: string };
      if (url !== undefined) pages.push(fleet.provider.visit(url));
    },
  );
  expect(signed).toMatchObject({ exit: 0 });
  const answer = JSON.parse(signed.out);
  expect(answer).toMatchObject({ taskId: "auth", checkpointId: id, version: 1 });
  const [confirmation, done] = await Promise.all(pages);
  expect(confirmation).toContain("Checked &lt;b&gt;twice&lt;/b&gt;");
  expect(confirmation).toContain("Ada Lovelace");
  expect(confirmation).toContain("Log in with &lt;i&gt;OIDC&lt;/i&gt;");
  expect(confirmation).toMatch(new RegExp(`fleet checkpoint show ${id} --version 1<`));
  expect(done).toContain("It is signed");
  requireStatementPrinted(signed.err, id, goal);
  await expect
    .poll(() => events.find(({ type }) => type === "CHECKPOINT_SIGNED")?.data, { timeout: 30_000 })
    .toEqual({
      ...{ checkpointId: id, taskId: "auth", version: 1 },
      ...{ meaning: "approval", printedName: "Ada Lovelace" },
    });
  await stop();

  const block = {
    ...{ state: "valid", printed_name: "Ada Lovelace", meaning: "approval", checkpoint_id: id, version: 1 },
    ...{ reason: "Checked <b>twice</b>", signer: { issuer: fleet.provider.url, subject: "ada" } },
  };
  expect((await json("signatures", "auth")).signatures).toMatchObject([block]);
  expect((await json("signatures", "auth", id, "--version", "2")).signatures).toEqual([]);
  expect((await json("checkpoint", "show", id)).electronic_signatures).toMatchObject([block]);
  expect((await json("checkpoint", "history", "auth")).electronic_signatures).toMatchObject([block]);
  for (const shown of [
    ["checkpoint", "show", id],
    ["checkpoint", "history", "auth"],
    ["checkpoint", "list", "--task", "auth"],
    ["signatures", "auth"],
  ]) {
    const { out } = await cli(shown);
    expect(out, shown.join(" ")).toMatch(
      /Ada Lovelace \(ada of http\S+\), approval, (?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \(\d{4}\S*Z\)|\d{4}\S*Z \((?:Etc\/)?\w+\))/,
    );
  }
  expect((await cli(["signers", "list"])).out).toMatch(/Ada Lovelace.*ada.*active/);
  expect(await json("audit", "verify", "auth")).toMatchObject({ ok: true, signatures: { problems: [] } });
  const { entries } = await fleet.writer.getAudit("auth");
  expect(JSON.parse(entries.at(-1)!.entry)).toMatchObject({
    ...{ op: "signature_add", actor: { id: "human=ada", type: "human" }, checkpoint_id: id, version: 1 },
    ...{ meaning: "approval", signer_subject: "ada", statement_hash: answer.statementHash, new_hash: null },
  });

  const file = join(fleet.folder, "auth.jsonl");
  await json("export", "--task", "auth", "--out", file);
  const verified = await json("export", "verify", file);
  expect(verified).toMatchObject({ complete: true, electronic_signatures: [block], esignature_problems: 0 });
  expect((await cli(["export", "verify", file])).out).toMatch(/Ada Lovelace \(ada of \S+\), approval/);
  expect((await cli(["scrub", "start", "--wait"])).exit).toBe(0);

  await requireKept(id);
});

/** A script finds what is signed by the names of its members, and reads no prose. */
function requireStatementPrinted(printed: string, id: string, goal: string): void {
  const documents = printed
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(documents.find(({ statement }) => statement !== undefined)).toMatchObject({
    statement: {
      meaning: "approval",
      reason: "Checked <b>twice</b>",
      signer: { printed_name: "Ada Lovelace" },
    },
    content: { goal, command: expect.stringContaining(id) },
  });
}

/** Also when it is long past the checkpoints that every task keeps. */
async function requireKept(id: string): Promise<void> {
  for (let newer = 0; newer < 4; newer += 1) await fleet.written("auth");
  const kept = await cli(["checkpoint", "remove", id, "--json"]);
  expect(kept.exit).toBe(5);
  expect(kept.err).toContain('"signed"');
}

test("an agent is refused before any login", { timeout: CALLS_MS }, async () => {
  await fleet.written("agents");
  const env = {
    ...{ FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home },
    FLEET_SPOOL_DIR: join(fleet.server.home, "spool"),
  };
  const sign = ["sign", "agents", "--meaning", "approval"];
  const refusals = [
    await callCli([...sign, "--agent", "bot-1"], { env }),
    await callCli([...sign, "--with", "passkey"], { env: { ...env, FLEET_AGENT_ID: "bot-1" } }),
  ];
  for (const { exit, out, err } of refusals) {
    expect({ exit, out }).toEqual({ exit: 64, out: "" });
    expect(err).toContain("bot-1 is no person, and only a person may sign");
    expect(err).toContain("--person");
    // No address to log in at.
    expect(err).not.toContain("http");
  }
});

test("a person is not shown content that does not have the hash to sign", { timeout: CALLS_MS }, async () => {
  await fleet.written("shown");
  const { esign } = fleet.writer.admin;
  const { subject } = await esign.request({ taskId: "shown" });
  expect(await esign.contentOf(subject)).toMatchObject({ execution_state: { phase: "implementing" } });
  await expect(esign.contentOf({ ...subject, hash: "0".repeat(64) })).rejects.toMatchObject({
    code: "CORRUPT",
    details: { checkpoint_id: subject.checkpoint_id, version: 1 },
  });
});

test("a program that reads a checkpoint over MCP sees its signatures", { timeout: CALLS_MS }, async () => {
  const id = await fleet.written("mcp");
  const of = { fleet: fleet.writer } as McpSession;
  const read = async (part: string) => JSON.parse((await readResource(of, `fleet://tasks/mcp/${part}`)).text);
  expect(await read("latest")).not.toHaveProperty("electronic_signatures");
  await fleet.signedBy(await fleet.newCaller(), "mcp");
  for (const part of ["latest", `checkpoints/${id}`])
    expect(await read(part)).toMatchObject({
      metadata: { version: 1 },
      electronic_signatures: [{ state: "valid", printed_name: "Ada Lovelace", meaning: "approval" }],
    });
});

test("a program that reads a checkpoint over MCP sees that its signatures could not be read", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("mcp-unread");
  const { writer } = fleet;
  // A fleet of an older version refuses the query.
  const send = () => Promise.reject(new FleetError("INVALID", "an unknown operation"));
  type Parts = ConstructorParameters<typeof EsignAdmin>[0];
  const esign = new EsignAdmin({ queries: { send }, tenant: "default" } as unknown as Parts);
  const older = { latest: (task: string) => writer.latest(task), admin: { esign } };
  const { text } = await readResource(
    { fleet: older } as unknown as McpSession,
    "fleet://tasks/mcp-unread/latest",
  );
  expect(JSON.parse(text)).toMatchObject({
    ...{ metadata: { checkpoint_id: id }, electronic_signatures_unread: "INVALID" },
  });
});

test("lists, searches and the checkpoints of a mission show signatures", { timeout: CALLS_MS }, async () => {
  await json("mission", "start", "msn-signed", "--title", "sign it");
  const made = await fleet.written("msn-signed");
  await fleet.signedBy(await fleet.newCaller(), "msn-signed");
  const block = { state: "valid", printed_name: "Ada Lovelace", meaning: "approval", version: 1 };
  const of = { ...block, checkpoint_id: made };
  expect(await json("checkpoint", "list", "--mission", "msn-signed")).toMatchObject([
    { electronic_signatures: [of] },
  ]);
  expect(await json("checkpoint", "list", "--task", "msn-signed")).toMatchObject({
    electronic_signatures: [of],
  });
  const search = ["checkpoint", "search", "--task", "msn-signed"];
  await expect
    .poll(() => json(...search), { timeout: 30_000 })
    .toMatchObject({ electronic_signatures: [of] });
  for (const args of [search, ["checkpoint", "list", "--mission", "msn-signed"]])
    expect((await cli(args)).out, args.join(" ")).toMatch(/chk-\S+ version 1 signed by Ada Lovelace/);
});

test("a version that is superseded is signed, and the signature stays with it", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("drafts");
  const client = await fleet.newCaller();
  const statement = await fleet.statementFor(client, "drafts");
  await fleet.writer.updateCheckpoint(id, { execution_state: { goal: "changed" } });
  await client.admin.esign.add(statement, await fleet.provider.token({ nonce: nonceOfStatement(statement) }));
  const [one] = await client.admin.esign.list("drafts", { content: true });
  expect(one).toMatchObject({ state: "valid", version: 1, checkpoint_id: id, newest_version: 2 });
  expect(await client.admin.esign.list("drafts", { checkpointId: id, version: 2 })).toEqual([]);
  const file = join(fleet.server.home, "drafts.jsonl");
  expect(await cli(["export", "--task", "drafts", "--out", file])).toMatchObject({ exit: 0 });
  for (const args of [
    ["signatures", "drafts"],
    ["checkpoint", "show", id, "--version", "1"],
    ["checkpoint", "history", "drafts"],
    ["checkpoint", "list", "--task", "drafts"],
    ["export", "verify", file],
  ])
    expect((await cli(args)).out, args.join(" ")).toMatch(/Ada Lovelace.*valid, superseded by version 2/);
  expect(await json("checkpoint", "list", "--task", "drafts")).toMatchObject({
    electronic_signatures: [{ version: 1, newest_version: 2 }],
  });
  // The version that is shown is not signed, and the display names the one that is.
  const signed = { state: "valid", printed_name: "Ada Lovelace", version: 1, newest_version: 2 };
  const shown = await json("checkpoint", "show", id);
  expect(shown).toMatchObject({ metadata: { version: 2 }, other_versions_signatures: [signed] });
  expect(shown).not.toHaveProperty("electronic_signatures");
  expect((await cli(["checkpoint", "show", id])).out).toMatch(
    /\nOther versions signed by \(1\):\n.*version 1: Ada Lovelace.*valid, superseded by version 2/,
  );
  const first = await json("checkpoint", "show", id, "--version", "1");
  expect(first).toMatchObject({ electronic_signatures: [signed] });
  expect(first).not.toHaveProperty("other_versions_signatures");
  const of = { fleet: fleet.writer } as McpSession;
  for (const part of ["latest", `checkpoints/${id}`]) {
    const read = JSON.parse((await readResource(of, `fleet://tasks/drafts/${part}`)).text);
    expect(read).toMatchObject({ metadata: { version: 2 }, other_versions_signatures: [signed] });
    expect(read).not.toHaveProperty("electronic_signatures");
  }
  const tools = new McpSession(fleet.writer, readMcpConfig({ FLEET_TASK: "drafts" }), testLog);
  const inShort = {
    ...{ version: 1, state: "valid", printedName: "Ada Lovelace", meaning: "approval", supersededBy: 2 },
    ...{ signedAt: statement.signed_at, zone: statement.zone },
  };
  const listed = { checkpoints: [{ taskId: "drafts", version: 2, signatures: [inShort] }] };
  expect(await tools.history({ limit: 10 })).toMatchObject(listed);
  await expect
    .poll(() => tools.search({ text: "changed", limit: 10 }), { timeout: 30_000 })
    .toMatchObject(listed);
  // The newest version is not superseded.
  await fleet.signedBy(client, "drafts", { reason: "again" });
  const both = await json("checkpoint", "show", id);
  expect(both.electronic_signatures).toMatchObject([{ version: 2, reason: "again" }]);
  expect(both.other_versions_signatures).toMatchObject([signed]);
  expect((await cli(["signatures", "drafts"])).out).toMatch(/"again": valid$/m);
});

test("a repeated command is answered again, and the same statement is not signed twice", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("repeat");
  const client = await fleet.newCaller();
  const statement = await fleet.statementFor(client, "repeat");
  const token = await fleet.provider.token({ nonce: nonceOfStatement(statement) });
  const first = await client.admin.esign.add(statement, token);
  const again = await client.admin.esign.add(statement, token, { commandId: first.commandId });
  expect(again).toMatchObject({ replayed: true, auditSeq: first.auditSeq });
  await expect(client.admin.esign.add(statement, token)).rejects.toMatchObject({
    details: { reason: "replayed" },
  });
  expect(await client.admin.esign.list("repeat")).toHaveLength(1);
});

test("clocks that differ a little are accepted", { timeout: CALLS_MS }, async () => {
  await fleet.written("clocks");
  for (const loggedInAt of [-20, 20]) {
    fleet.provider.seat.loggedInAt = loggedInAt;
    await fleet.signedBy(await fleet.newCaller(), "clocks", { reason: `at ${loggedInAt}` });
  }
  fleet.provider.seat.loggedInAt = 0;
  expect(await fleet.writer.admin.esign.list("clocks")).toMatchObject([
    { state: "valid" },
    { state: "valid" },
  ]);
});

test("old signatures verify after the provider has another key", { timeout: CALLS_MS }, async () => {
  await fleet.written("rotation");
  const client = await fleet.newCaller();
  await fleet.signedBy(client, "rotation");
  await fleet.provider.rotate();
  await fleet.signedBy(client, "rotation", { meaning: "review" });
  const signatures = await client.admin.esign.list("rotation", { content: true });
  expect(signatures.map(({ state, meaning }) => [state, meaning])).toEqual([
    ["valid", "approval"],
    ["valid", "review"],
  ]);
  const [one, two] = signatures.map(({ signed }) => (signed!.proof.jwk as EsignKey).kid);
  expect(one).not.toBe(two);
});

test("a reviewer signs, with a login and with a passkey, and other roles may not", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("roles");
  const as = (role: "reviewer" | "custodian" | "observer") =>
    fleet.server.client(`human=${role}`, "default", { role });
  const reviewer = await as("reviewer");
  await fleet.signedBy(reviewer, "roles");
  await signWithPasskeyAt(fleet.provider, reviewer, "roles", new SoftwareAuthenticator());
  const { signers } = await reviewer.admin.esign.signers();
  expect(signers).toContainEqual(expect.objectContaining({ subject: "ada" }));
  for (const role of ["custodian", "observer"] as const)
    await expect(fleet.signedBy(await as(role), "roles", { meaning: "review" })).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
  expect(await reviewer.admin.esign.list("roles", { content: true })).toMatchObject([
    { state: "valid", method: "oidc" },
    { state: "valid", method: "webauthn" },
  ]);
});

test("a tenant has its own signers, and its rules for their logins", { timeout: CALLS_MS }, async () => {
  const acme = await fleet.server.client("agent-1", "acme");
  await acme.createCheckpoint({ taskId: "audit", checkpoint: input() });
  const client = await fleet.newCaller("acme");
  const signAt = async (of: IdentityProvider) => {
    const statement = await fleet.statementFor(client, "audit", {}, of);
    return client.admin.esign.add(statement, await of.token({ nonce: nonceOfStatement(statement) }));
  };
  await expect(signAt(fleet.stranger)).rejects.toMatchObject({ details: { reason: "assurance" } });
  fleet.stranger.seat.amr = ["pwd", "mfa"];
  await signAt(fleet.stranger);
  const { signers } = await client.admin.esign.signers();
  expect(signers).toMatchObject([{ issuer: fleet.stranger.url, subject: "ada" }]);
  expect(await client.admin.esign.list("auth")).toEqual([]);
  await expect(client.admin.esign.request({ taskId: "auth" })).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a revoked person signs no more, and the earlier signatures stay valid", {
  timeout: CALLS_MS,
}, async () => {
  await fleet.written("left");
  fleet.provider.seat.subject = "grace";
  const grace = { id: { issuer: fleet.provider.url, subject: "grace" }, printed_name: "Grace Hopper" };
  const client = await fleet.newCaller();
  await fleet.signedBy(client, "left", { signer: grace });
  expect(await json("signers", "revoke", "grace", "--reason", "left")).toMatchObject({
    signers: expect.arrayContaining([
      expect.objectContaining({ subject: "grace", revoked_reason: "left" }),
    ]) as unknown,
  });
  await expect(fleet.signedBy(client, "left", { signer: grace, meaning: "review" })).rejects.toMatchObject({
    details: { reason: "revoked" },
  });
  fleet.provider.seat.subject = "ada";
  expect(await client.admin.esign.list("left", { content: true })).toMatchObject([{ state: "valid" }]);
  expect(await fleet.tenantActs()).toContainEqual(
    expect.objectContaining({
      action: "signer_revoke",
      subject: expect.objectContaining({ subject: "grace" }),
    }),
  );
  expect((await cli(["signers", "revoke", "unknown", "--reason", "lost"])).exit).toBe(4);
});
