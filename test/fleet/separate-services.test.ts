// Services as separate processes with credentials: the files of `fleet access init`, a real nats-server, and an agent
// whose issued credentials are for its own name only.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus } from "../../shared/bus/connection.ts";
import { newSigningKeyPem } from "../../shared/integrity/dsse.ts";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { connect } from "../../shared/sdk/sdk.ts";
import { startClusterNats } from "../harness/cluster-nats.ts";
import { testLog } from "../harness/processes/nats.ts";
import { type Role, startService, type TestService } from "../harness/processes/services.ts";
import { projectRoot } from "../harness/project-root.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";
import { BRIEF, examine, problemsOf } from "./doctor/examination.ts";

const PROCESSES_MS = 90_000;
const ROLES = ["writer", "reader", "coordinator", "watchdog"] as const;
const folder = mkdtempSync(join(tmpdir(), "fleet-separate-"));
const home = join(folder, ".fleet");
const dir = join(folder, "cluster");
const signingKey = join(folder, "signing-key.pem");

let nats: Awaited<ReturnType<typeof startClusterNats>>;
let url: string;
let services: TestService[] = [];

const fleet = (line: string, env: Record<string, string> = {}) =>
  callCli(line.split(" "), { env: { FLEET_HOME: home, ...env } });

const start = (role: Role, env: Record<string, string> = {}) =>
  startService(role, {
    ...{ FLEET_URL: url, FLEET_STORE: `lmdb:${folder}/store?shared` },
    ...{ FLEET_SIGNING_KEY: signingKey, ...env },
  });

beforeAll(async () => {
  const made = await fleet(`access init ${dir} --json`);
  expect({ exit: made.exit, err: made.err }).toEqual({ exit: 0, err: "" });
  writeFileSync(signingKey, newSigningKeyPem(), { mode: 0o600 });
  nats = await startClusterNats(dir, folder);
  url = nats.url;
  services = await Promise.all(
    ROLES.map((role) => start(role, { FLEET_NATS_CREDS: join(dir, `${role}.creds`) })),
  );
}, PROCESSES_MS);

afterAll(async () => {
  await Promise.all(services.map((service) => service.kill9()));
  nats?.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("only their user can read the files, and a repetition keeps the credentials", async () => {
  const contents = () => ROLES.map((role) => readFileSync(join(dir, `${role}.creds`), "utf8"));
  const before = contents();
  expect((await fleet(`access init ${dir}`)).exit).toBe(0);
  expect(contents()).toEqual(before);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
  expect(readdirSync(dir).sort()).toEqual(
    ["access.conf", "nats.conf", ...ROLES.map((r) => `${r}.creds`)].sort(),
  );
  // A seed would give the server's administrator the power to issue credentials.
  expect(readFileSync(join(dir, "access.conf"), "utf8")).not.toMatch(/\bS[AOU][A-Z2-7]{56}\b/);
});

test(
  "the doctor finds no problem: the credentials of the services and of the operator have all rights that they need",
  async () => {
    const file = join(folder, "operator.creds");
    expect((await fleet(`access issue --role operator --agent ada --out ${file}`)).exit).toBe(0);
    const operator = { FLEET_NATS_CREDS: file, FLEET_PERSON: "ada" };
    const env = { FLEET_URL: url, FLEET_HOME: folder, XDG_STATE_HOME: join(folder, "state"), ...operator };
    const report = await examine(env, BRIEF);
    expect(problemsOf(report)).toEqual([]);
    expect(report.services.map(({ service }) => service).sort()).toEqual([...ROLES].sort());
    // No service has the monitoring address of the bus.
    const open = report.checks.filter(({ state }) => state === "not_checked").map(({ code }) => code);
    expect(open).toEqual(["bus.sync", "services.answers"]);
    expect(report).toMatchObject({ exit: 0, healthy: false });
  },
  PROCESSES_MS,
);

test("the files of a signing service are written on request", async () => {
  const made = await fleet(`access init ${folder}/signed --signer --json`);
  expect({ exit: made.exit, err: made.err }).toEqual({ exit: 0, err: "" });
  expect(readdirSync(join(folder, "signed"))).toEqual(
    expect.arrayContaining(["signer.creds", "signer.keys"]),
  );
});

test(
  "an agent with issued credentials creates and reads a checkpoint, and acts as no other agent",
  async () => {
    const file = join(folder, "coder.creds");
    expect((await fleet(`access issue --agent coder --out ${file}`)).exit).toBe(0);
    const options = { url, fallback: "none", env: { FLEET_HOME: folder }, onWarning: () => {} } as const;
    const coder = await connect({ ...options, agentId: "coder", credentials: file });
    try {
      const written = await coder.createCheckpoint({ taskId: "walled", checkpoint: input() });
      expect(written.outcome).toBe("committed");
      expect((await coder.getCheckpointHistory("walled")).checkpoints).toHaveLength(1);
      // The coordinator makes the offer, so it reads events and the store with its own rights.
      const last = await coder.createCheckpoint({
        taskId: "walled",
        checkpoint: input({ phase: "handoff" }),
        handoff: {},
      });
      const handoffId = last.outcome === "committed" ? last.handoffId : undefined;
      const state = async () => (await coder.handoff(handoffId!))?.state;
      await expect.poll(state, { timeout: 20_000 }).toBe("offered");
    } finally {
      await coder.close();
    }
    const bus = await connectBus({
      url,
      name: "coder",
      identity: "coder",
      tenant: "default",
      log: testLog,
      credentials: { credsFile: file },
    });
    try {
      const refused = [
        SUBJECTS.command("default", "other", "walled", "update"),
        SUBJECTS.command("other", "coder", "walled", "update"),
        "$JS.API.STREAM.INFO.FLEET_EVENTS",
      ];
      for (const subject of refused) {
        const call = bus.request(subject, { body: Buffer.from("{}") }, { timeoutMs: 2_000 });
        await expect(call, subject).rejects.toMatchObject({ kind: "permission" });
      }
    } finally {
      await bus.close();
    }
    for (const service of services)
      expect(service.output(), service.role).not.toMatch(/permissions? violation/i);
  },
  PROCESSES_MS,
);

test(
  "revoked credentials lose the running bus of the cluster",
  async () => {
    const file = join(folder, "guest.creds");
    expect((await fleet(`access issue --agent guest --out ${file}`)).exit).toBe(0);
    const revoked = await fleet("access revoke guest --json", { FLEET_URL: url });
    expect(JSON.parse(revoked.out)).toMatchObject({ applied: true });
    const credentials = { creds: readFileSync(file, "utf8") };
    const call = connectBus({
      url,
      name: "guest",
      identity: "guest",
      tenant: "default",
      log: testLog,
      credentials,
    });
    await expect(call).rejects.toMatchObject({ kind: "permission" });
  },
  PROCESSES_MS,
);

test.each(ROLES)(
  "a %s without credentials refuses to start and names the setting",
  (role) => {
    const env = { ...process.env, FLEET_OPS_PORT: "0", FLEET_URL: url, FLEET_STORE: "memory:" };
    const run = spawnSync(process.execPath, [`services/${role}/main.ts`], {
      cwd: projectRoot,
      env,
      encoding: "utf8",
      timeout: 30_000,
    });
    expect(run.status).toBe(78);
    expect(run.stdout + run.stderr).toMatch(/no credentials for the bus.*FLEET_NATS_CREDS/s);
  },
  PROCESSES_MS,
);
