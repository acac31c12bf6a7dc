// Credentials as their users meet them: a fleet that refuses strangers, files from `fleet access`, and their revocation.

import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConnectOptions, connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { resultOf, startCli } from "../../services/cli/process.ts";

/** A busy machine takes seconds to start a fleet again. */
const FLEETS_MS = 90_000;

let server: TestFleet;
/** The home of another user. */
const elsewhere = mkdtempSync(join(tmpdir(), "fleet-elsewhere-"));
const clients: FleetClient[] = [];

beforeAll(async () => {
  server = await startFleet();
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server?.stop();
  rmSync(elsewhere, { recursive: true, force: true });
});

const fleet = (line: string, env: Record<string, string> = {}) =>
  callCli(line.split(" "), { env: { FLEET_HOME: server.home, ...env } });

/** A program of another user, who has the address of the fleet and perhaps a file. */
async function stranger(agentId: string | undefined, options: ConnectOptions = {}): Promise<FleetClient> {
  const client = await connect({
    url: server.url,
    ...(agentId !== undefined && { agentId }),
    fallback: "none",
    env: { FLEET_HOME: elsewhere },
    onWarning: () => {},
    ...options,
  });
  clients.push(client);
  return client;
}

/** What the audit chain of the tenant has about credentials. */
async function credentialActs(tenant: string): Promise<object[]> {
  const { out } = await fleet(`audit tenant --tenant ${tenant} --json`);
  const { entries } = JSON.parse(out) as { entries: { entry: string }[] };
  return entries
    .map(({ entry }) => JSON.parse(entry) as { action: string })
    .filter(({ action }) => action.startsWith("credentials_"));
}

const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "done",
    (error: unknown) => (error as { code?: string }).code ?? error,
  );

test(
  "without credentials the bus refuses a program, and the error names the next step",
  async () => {
    expect(await codeOf(stranger("agent-1"))).toBe("UNAUTHORIZED");
    const { exit, err } = await fleet("status", { FLEET_HOME: elsewhere, FLEET_URL: server.url });
    expect(exit).not.toBe(0);
    expect(err).toMatch(/FLEET_NATS_CREDS.*fleet access issue/s);
  },
  FLEETS_MS,
);

test(
  "issued credentials are for one name in one tenant, and end at once when they are revoked",
  async () => {
    const file = join(elsewhere, "coder.creds");
    const issued = await fleet(`access issue --agent coder --out ${file} --json`);
    expect({ exit: issued.exit, err: issued.err }).toEqual({ exit: 0, err: "" });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const coder = await stranger("coder", { credentials: file });
    const written = await coder.createCheckpoint({ taskId: "walled", checkpoint: input({}) });
    expect(written.outcome).toBe("committed");
    expect(await codeOf(coder.admin.executeRecovery(null, { taskId: "walled" }))).toBe("FORBIDDEN");
    expect(await codeOf(coder.admin.status())).toBe("FORBIDDEN");
    // The file names its holder, for programs and for commands.
    const unnamed = await stranger(undefined, { credentials: file });
    expect(unnamed.agentId).toBe("coder");
    expect(await codeOf(unnamed.getTask("walled"))).toBe("done");
    const elsewhereEnv = { FLEET_HOME: elsewhere, FLEET_URL: server.url };
    const shown = await fleet("task show walled --json", { ...elsewhereEnv, FLEET_NATS_CREDS: file });
    expect(JSON.parse(shown.out)).toMatchObject({ task_id: "walled", tenant: "default" });
    const person = join(elsewhere, "ada.creds");
    await fleet(`access issue --agent ada --tenant acme --role observer --out ${person}`);
    const seen = await fleet("status --json", { ...elsewhereEnv, FLEET_NATS_CREDS: person });
    expect({ exit: seen.exit, err: seen.err }).toEqual({ exit: 0, err: "" });
    await fleet("access revoke ada");

    // Another name or another tenant with the same file: the server refuses the inbox and the subject.
    const other = await stranger("reviewer", { credentials: file });
    expect(await codeOf(other.getTask("walled"))).toBe("FORBIDDEN");
    const abroad = await stranger("coder", { credentials: file, tenant: "elsewhere" });
    expect(await codeOf(abroad.getTask("walled"))).toBe("FORBIDDEN");

    const list = JSON.parse((await fleet("access list --json")).out) as { grants: object[] };
    expect(list.grants).toMatchObject([
      { name: "coder", role: "agent", tenant: "default", state: "valid" },
      { name: "human=ada", role: "observer", tenant: "acme", state: "revoked" },
    ]);
    const revoked = await fleet("access revoke coder");
    expect(revoked).toMatchObject({
      exit: 0,
      err: "",
      out: expect.stringContaining("refuses them from now on"),
    });
    expect(await codeOf(stranger("coder", { credentials: file }))).toBe("UNAUTHORIZED");
    await expect.poll(() => codeOf(coder.getTask("walled"))).not.toBe("done");
    expect((await fleet("access list")).out).toMatch(/coder.*agent.*revoked/);
    expect(await fleet("access revoke coder")).toMatchObject({ exit: 64 });
    const done = [
      { action: "credentials_issue", subject: { name: "coder", role: "agent" } },
      { action: "credentials_revoke", subject: { name: "coder", role: "agent" } },
    ];
    expect(await credentialActs("default")).toMatchObject(done);
    const hers = { name: "human=ada", role: "observer" };
    expect(await credentialActs("acme")).toMatchObject(done.map((act) => ({ ...act, subject: hers })));
  },
  FLEETS_MS,
);

test("the matrix shows the rights of each principal at a time, and refuses a time without a record", async () => {
  const before = new Date().toISOString();
  for (const [name, role] of [
    ["writer-7", "agent"],
    ["grace", "operator"],
    ["watcher", "observer"],
    ["quinn", "reviewer"],
    ["cleo", "custodian"],
  ])
    await fleet(`access issue --agent ${name} --tenant acme --role ${role}`);
  await fleet(
    "access api-key create --agent ci --tenant acme --role operator --scope createCheckpoint checkpoints:read",
  );
  const during = new Date().toISOString();
  await fleet("access revoke grace --tenant acme");
  const matrix = async (line: string) => {
    const { exit, out } = await fleet(`access matrix --tenant acme --json ${line}`.trim());
    expect(exit).toBe(0);
    const { principals } = JSON.parse(out) as { principals: { name: string; rights: string[] }[] };
    return Object.fromEntries(principals.map(({ name, rights }) => [name, rights]));
  };
  const agent = ["read", "write", "finalize", "hand_off"];
  const observer = ["read", "audit"];
  const reviewer = ["read", "finalize", "sign", "audit"];
  const custodian = ["read", "retain", "hold", "shred", "shred_approve", "remove", "audit", "export"];
  const others = { "human=quinn": reviewer, "human=cleo": custodian, "human=ci": ["read", "write"] };
  const operator = [
    ...["read", "write", "finalize", "sign", "hand_off", "recover", "retain", "hold"],
    ...["shred", "shred_approve", "remove", "import", "audit", "export", "keys"],
  ];
  expect(await matrix(`--at ${during}`)).toEqual({
    "writer-7": agent,
    "human=grace": operator,
    "human=watcher": observer,
    ...others,
  });
  expect(await matrix("")).toEqual({ "writer-7": agent, "human=watcher": observer, ...others });
  expect(await matrix(`--at ${before}`)).toEqual({});
  expect(await matrix(`--at ${during} --right hold`)).toEqual({
    "human=grace": operator,
    "human=cleo": custodian,
  });
  const { exit, err } = await fleet("access matrix --at 2020-01-01");
  expect([exit, err]).toEqual([64, expect.stringMatching(/are not recorded[\s\S]*recorded since \d{4}-/)]);
  const future = await fleet("access matrix --at 2999-01-01");
  expect([future.exit, future.err]).toEqual([64, expect.stringContaining("is in the future")]);
  expect((await fleet(`access matrix --at ${during} --tenant acme`)).out).toMatch(
    /NAME +ROLE[\s\S]*grace \(person\) +operator[\s\S]*\n\nNot listed: programs of the fleet's own user/,
  );
  expect((await fleet(`access matrix --at ${before} --tenant acme`)).out).toMatch(
    /No issued credentials gave such a right\.\nNot listed: programs of the fleet's own user, which may do everything/,
  );
});

test(
  "an export asks for its right before it reads, and is recorded: a reviewer has none, a custodian has",
  async () => {
    const admin = await server.client("agent-1", "exports");
    await admin.createCheckpoint({ taskId: "kept", checkpoint: input({}) });
    const credentials = async (name: string, role: string) => {
      const file = join(elsewhere, `${name}.creds`);
      await fleet(`access issue --agent ${name} --tenant exports --role ${role} --out ${file}`);
      return { FLEET_HOME: elsewhere, FLEET_URL: server.url, FLEET_NATS_CREDS: file };
    };
    const exportActs = async () => {
      const { out } = await fleet("audit tenant --tenant exports --json");
      const { entries } = JSON.parse(out) as { entries: { entry: string }[] };
      const acts = entries
        .map(({ entry }) => JSON.parse(entry) as { action: string; subject: { manifest?: string } })
        .filter(({ action }) => action === "export");
      // A request whose answer was late is repeated, and recorded again.
      return [...new Map(acts.map((act) => [act.subject.manifest, act])).values()];
    };
    const [quinn, cleo] = [
      await credentials("quinn-2", "reviewer"),
      await credentials("cleo-2", "custodian"),
    ];
    for (const way of ["--out", "--bundle"]) {
      const file = join(elsewhere, `quinn${way}`);
      expect((await fleet(`export --task kept ${way} ${file}`, quinn)).exit).toBe(77);
      expect(existsSync(file)).toBe(false);
    }
    const piped = await fleet("export --all", quinn);
    expect({ exit: piped.exit, out: piped.out }).toEqual({ exit: 77, out: "" });
    expect(await exportActs()).toEqual([]);

    const file = join(elsewhere, "kept.jsonl");
    const done = await fleet(`export --task kept --out ${file} --json`, cleo);
    expect({ exit: done.exit, err: done.err }).toMatchObject({ exit: 0 });
    const [first = ""] = readFileSync(file, "utf8").split("\n");
    expect(await exportActs()).toMatchObject([
      {
        actor: { id: "human=cleo-2" },
        subject: { phase: "begin", tasks: 1, manifest: createHash("sha256").update(first).digest("hex") },
      },
    ]);
    // The reviewer has the file of another, and may not continue it either.
    writeFileSync(file, `${first}\n`);
    expect((await fleet(`export --resume --out ${file}`, quinn)).exit).toBe(77);
  },
  FLEETS_MS,
);

test(
  "no line of the register is lost when programs issue credentials at the same time",
  async () => {
    // Half a line, which a killed process left.
    appendFileSync(join(server.home, "access", "grants.jsonl"), '{"issued":');
    const names = ["p1", "p2", "p3", "p4", "p5", "p6"];
    const env = { FLEET_HOME: server.home };
    const results = await Promise.all(
      names.map((name) => resultOf(startCli(["access", "issue", "--agent", name, "--json"], { env }))),
    );
    expect(results.map(({ exit }) => exit)).toEqual(names.map(() => 0));
    const { grants } = JSON.parse((await fleet("access list --json")).out) as { grants: { name: string }[] };
    expect(
      grants
        .map(({ name }) => name)
        .filter((name) => /^p\d$/.test(name))
        .sort(),
    ).toEqual(names);
    expect(await fleet("access issue --agent late --expires 99999999d")).toMatchObject({
      exit: 65,
      err: expect.stringContaining("--expires"),
    });
  },
  FLEETS_MS,
);

test(
  "revoked credentials stay revoked when the server and the fleet are killed",
  async () => {
    const file = join(elsewhere, "leaver.creds");
    await fleet(`access issue --agent leaver --out ${file}`);
    await fleet("access revoke leaver");
    await server.killNats();
    await expect
      .poll(() => codeOf(stranger("leaver", { credentials: file })), { timeout: 30_000 })
      .toBe("UNAUTHORIZED");
    await server.kill9();
    await server.start();
    expect(await codeOf(stranger("leaver", { credentials: file }))).toBe("UNAUTHORIZED");
  },
  FLEETS_MS,
);

test(
  "the fleet's own user needs no file, and its keys are readable by this user only",
  async () => {
    const client = await server.client("own-agent");
    expect(await codeOf(client.getTask("walled"))).toBe("done");
    const folder = join(server.home, "access");
    // Others could write to it before the fleet was started again.
    chmodSync(server.home, 0o777);
    await server.terminate();
    const offline = await fleet("access issue --agent offline --json");
    expect(offline).toMatchObject({ exit: 0, err: expect.stringContaining("audit chain") });
    await server.start();
    const revoked = await fleet("access revoke offline");
    expect(revoked).toMatchObject({ exit: 0, err: "" });
    expect((await credentialActs("default")).slice(-2)).toMatchObject([
      { action: "credentials_issue", subject: { name: "offline" } },
      { action: "credentials_revoke", subject: { name: "offline" } },
    ]);
    expect(statSync(server.home).mode & 0o777).toBe(0o755);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(folder))
      expect([name, statSync(join(folder, name)).mode & 0o077]).toEqual([name, 0]);
    // A client of this user has the role of an agent, unless it asks for another one.
    const agent = await server.client("own-agent", "default", { role: "agent" });
    expect(await codeOf(agent.admin.queueStatus())).toBe("FORBIDDEN");
  },
  FLEETS_MS,
);

test(
  "an orchestrator accepts an offer for an agent that it starts, and an agent cannot",
  async () => {
    const source = await server.client("source", "default", { role: "agent" });
    const started = await source.createCheckpoint({ taskId: "started", checkpoint: input({}) });
    await source.initiateHandoff(started.checkpointId, { taskId: "started" });
    const orchestrator = await server.client("conductor", "default", { role: "orchestrator" });
    const state = async () => (await orchestrator.handoffOf("started"))?.state;
    await expect.poll(state, { timeout: 20_000 }).toBe("offered");

    const thief = await server.client("thief", "default", { role: "agent" });
    expect(await codeOf(thief.acknowledgeHandoff(started.checkpointId, "accomplice"))).toBe("FORBIDDEN");
    expect(await state()).toBe("offered");
    // Ada's name is for her own credentials.
    expect(await codeOf(orchestrator.acknowledgeHandoff(started.checkpointId, "human=ada"))).toBe(
      "FORBIDDEN",
    );
    expect(await state()).toBe("offered");
    const operator = await server.client("human=ada", "default", { role: "operator" });
    const denied = async () =>
      (await operator.admin.accessLog.list({ denied: true, actor: "conductor" })).entries;
    await expect.poll(denied, { timeout: 30_000 }).toContainEqual(
      expect.objectContaining({
        op: "cmd.acknowledge",
        reason: "FORBIDDEN",
        task_id: "started",
      }) as unknown,
    );
    await orchestrator.acknowledgeHandoff(started.checkpointId, "worker-9");
    expect(await orchestrator.getTask("started")).toMatchObject({ owner: "worker-9" });
  },
  FLEETS_MS,
);

test(
  "a fleet keeps its streams when it gets credentials, and when it loses them",
  async () => {
    const env: Record<string, string> = { FLEET_AUTH: "off" };
    const changing = await startFleet(env);
    try {
      expect(changing.output()).toContain("FLEET_AUTH is off");
      const client = await changing.client("agent-1");
      await client.createCheckpoint({ taskId: "kept", checkpoint: input({}) });
      const status = async () => (await changing.client("reader")).admin.status();
      const { tasks } = (await status()).counts;
      const accounts = () => readdirSync(join(changing.home, "nats", "store", "jetstream"));
      expect(accounts()).toEqual(["$G"]);
      for (const [auth, account] of [
        ["on", /^A[A-Z2-7]{55}$/],
        ["off", /^\$G$/],
      ] as const) {
        await changing.terminate();
        env.FLEET_AUTH = auth;
        await changing.start();
        expect(accounts()).toEqual([expect.stringMatching(account)]);
        expect(await status()).toMatchObject({ bus: { ok: true }, counts: { tasks } });
      }
      expect(readdirSync(join(changing.home, "nats", "store", "jetstream", "$G", "streams"))).toContain(
        "FLEET_EVENTS",
      );
    } finally {
      await changing.stop();
    }
  },
  FLEETS_MS,
);
