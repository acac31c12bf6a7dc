// A runner without keys of the fleet: a signing service issues the credentials of its agents, each for its own name.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { startClusterNats } from "../harness/cluster-nats.ts";
import { testLog } from "../harness/processes/nats.ts";
import { EXAMPLE } from "../harness/processes/runner-process.ts";
import { type Role, startService, type TestService } from "../harness/processes/services.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";

const PROCESSES_MS = 120_000;
const POLL = { timeout: 60_000, interval: 50 };
const SERVICES = ["writer", "reader", "coordinator"] as const;
const RUNNER = "runner-box";
const USER = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
const folder = mkdtempSync(join(tmpdir(), "fleet-cluster-runner-"));
const dir = join(folder, "cluster");
const path = (name: string) => join(folder, name);

let nats: Awaited<ReturnType<typeof startClusterNats>>;
let services: TestService[] = [];
let signer: TestService;
let runner: TestService;
let source: FleetClient;

const fleet = async (line: string, env: Record<string, string> = {}) => {
  const result = await callCli(line.split(" "), { env: { FLEET_HOME: path(".fleet"), ...env } });
  expect(result.exit, result.err).toBe(0);
  return result;
};
const start = (role: Role, env: Record<string, string> = {}) =>
  startService(role, { FLEET_URL: nats.url, FLEET_HOME: path("elsewhere"), ...env });
const startSigner = (keys = join(dir, "signer.keys")) =>
  start("signer", {
    FLEET_NATS_CREDS: join(dir, "signer.creds"),
    FLEET_SIGNER_KEYS: keys,
    FLEET_SIGNER_CONFIG: path("signer.json"),
  });
const busOf = (name: string, credsFile: string): Promise<Bus> =>
  connectBus({
    ...{ url: nats.url, name, identity: name, tenant: "default", log: testLog },
    credentials: { credsFile },
  });

/** The agent keeps a copy of its credentials, and says whether it has any. */
const SCRIPT = `if [ -n "$FLEET_NATS_CREDS" ]; then cp "$FLEET_NATS_CREDS" "${path("copy.creds")}"; else echo none > "${path("none")}"; fi
exec ${EXAMPLE.map((word) => `"${word}"`).join(" ")}`;

async function offered(task: string): Promise<void> {
  await source.createCheckpoint({ taskId: task, checkpoint: input({ phase: "handoff" }), handoff: {} });
}

async function askFor(bus: Bus, as: string, body: object): Promise<unknown> {
  const subject = SUBJECTS.agentCredentials("default", as);
  const answer = await bus.request(
    subject,
    { body: Buffer.from(JSON.stringify(body)) },
    { timeoutMs: 20_000 },
  );
  return JSON.parse(Buffer.from(answer.body).toString());
}

beforeAll(async () => {
  await fleet(`access init --signer ${dir}`);
  nats = await startClusterNats(dir, folder);
  writeFileSync(path("signer.json"), JSON.stringify({ issuers: [] }));
  services = await Promise.all(
    SERVICES.map((role) =>
      start(role, {
        FLEET_STORE: `lmdb:${path("store")}?shared`,
        FLEET_NATS_CREDS: join(dir, `${role}.creds`),
      }),
    ),
  );
  signer = await startSigner();
  await fleet(`access issue --role runner --agent ${RUNNER} --out ${path("runner.creds")}`);
  await fleet(`access issue --agent source --out ${path("source.creds")}`);
  const agents = { implementation: { command: ["/bin/sh", "-c", SCRIPT], heartbeats: false } };
  writeFileSync(path("runner.json"), JSON.stringify({ grace_ms: 10_000, agents }));
  runner = await start("runner", {
    FLEET_NATS_CREDS: path("runner.creds"),
    FLEET_RUNNER_NAME: "box",
    FLEET_RUNNER_CONFIG: path("runner.json"),
    FLEET_RUNNER_DIR: path("runner"),
  });
  const options = {
    url: nats.url,
    fallback: "none",
    env: { FLEET_HOME: folder },
    onWarning: () => {},
  } as const;
  source = await connect({ ...options, agentId: "source", credentials: path("source.creds") });
}, PROCESSES_MS);

afterAll(async () => {
  await source?.close();
  await Promise.all([runner, signer, ...services].map((service) => service?.kill9()));
  nats?.kill();
  rmSync(folder, { recursive: true, force: true });
});

test(
  "an agent writes with its own credentials, which are for its name only and end with it",
  async () => {
    await offered("signed");
    await expect.poll(async () => (await source.getTask("signed"))?.agent_id, POLL).toMatch(/^(?!source$)/);
    const copy = path("copy.creds");
    const agent = (await source.getTask("signed"))?.agent_id ?? "";
    expect(existsSync(path("none"))).toBe(false);
    const bus = await busOf(agent, copy);
    try {
      const refused = [
        SUBJECTS.command("default", "source", "signed", "update"),
        SUBJECTS.command("other", agent, "signed", "update"),
        SUBJECTS.agentCredentials("default", RUNNER),
        SUBJECTS.agentCredentials("default", agent),
      ];
      for (const subject of refused) {
        const call = bus.request(subject, { body: Buffer.from("{}") }, { timeoutMs: 20_000 });
        await expect(call, subject).rejects.toMatchObject({ kind: "permission" });
      }
    } finally {
      await bus.close();
    }
    // An hour at most, and no secret in the log.
    const [, claims = ""] =
      /^([\w-]+\.[\w-]+\.[\w-]+)$/m.exec(readFileSync(copy, "utf8"))?.[1]?.split(".") ?? [];
    const { name, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
    expect({ name, isShort: exp * 1_000 < Date.now() + 61 * 60_000 }).toEqual({ name: agent, isShort: true });
    const [seed = "none"] = /^SU[A-Z2-7]+$/m.exec(readFileSync(copy, "utf8")) ?? [];
    expect(signer.output() + runner.output()).not.toContain(seed);
    await expect.poll(() => runner.output(), POLL).toContain('"agent ended"');
    await expect
      .poll(() => existsSync(join(path("runner"), "agents", agent, "fleet.creds")), POLL)
      .toBe(false);
  },
  PROCESSES_MS,
);

test(
  "the signing service refuses what is no agent and no key, and the server refuses other runners' names",
  async () => {
    const bus = await busOf(RUNNER, path("runner.creds"));
    try {
      expect(await askFor(bus, RUNNER, { agent_id: "coder", user: USER })).toMatchObject({ status: "ok" });
      const wrong: [path: string, body: object][] = [
        ["agent_id", { agent_id: "human=ada", user: USER }],
        ["agent_id", { agent_id: "=writer", user: USER }],
        ["agent_id", { agent_id: "*", user: USER }],
        ["agent_id", { user: USER }],
        ["user", { agent_id: "coder" }],
        ["user", { agent_id: "coder", user: USER.replace("X", "A") }],
        ["user", { agent_id: "coder", user: `A${USER.slice(1)}` }],
      ];
      for (const [field, body] of wrong)
        expect(await askFor(bus, RUNNER, body), JSON.stringify(body)).toMatchObject({
          status: "error",
          error: { code: "INVALID", fields: [{ path: field }] },
        });
      const logged = () =>
        signer
          .output()
          .split("\n")
          .filter((line) => line.includes("were refused"));
      await expect.poll(() => logged().length, POLL).toBe(wrong.length);
      expect(logged()[0]).toMatch(/"fields":\[\{"path":"agent_id","expected":"[^"]+"\}\]/);
      for (const value of ["human=ada", "=writer", "got"]) expect(logged().join("\n")).not.toContain(value);
      await expect(askFor(bus, "runner-other", { agent_id: "coder", user: USER })).rejects.toMatchObject({
        kind: "permission",
      });
    } finally {
      await bus.close();
    }
  },
  PROCESSES_MS,
);

test(
  "without a signing service an agent starts without credentials, which the log explains",
  async () => {
    await signer.kill9();
    await offered("unsigned");
    await expect.poll(() => existsSync(path("none")), POLL).toBe(true);
    expect(runner.output()).toContain("no signing service answers");
    signer = await startSigner();
  },
  PROCESSES_MS,
);

test(
  "a signing service with the keys of an earlier version says that it answers no runner",
  async () => {
    const { service, ...earlier } = JSON.parse(readFileSync(join(dir, "signer.keys"), "utf8"));
    expect(service).toMatch(/^SA/);
    writeFileSync(path("earlier.keys"), JSON.stringify(earlier), { mode: 0o600 });
    await signer.kill9();
    signer = await startSigner(path("earlier.keys"));
    expect(signer.output()).toMatch(/access init --signer.*runners are not answered/);
    const bus = await busOf(RUNNER, path("runner.creds"));
    try {
      const ask = askFor(bus, RUNNER, { agent_id: "coder", user: USER });
      await expect(ask).rejects.toMatchObject({ kind: "no_responders" });
    } finally {
      await bus.close();
    }
    await signer.kill9();
    signer = await startSigner();
  },
  PROCESSES_MS,
);

test(
  "a revoked runner gets no credentials",
  async () => {
    const bus = await busOf(RUNNER, path("runner.creds"));
    try {
      expect(await askFor(bus, RUNNER, { agent_id: "coder", user: USER })).toMatchObject({ status: "ok" });
      await fleet(`access revoke ${RUNNER}`, { FLEET_URL: nats.url });
      await expect(askFor(bus, RUNNER, { agent_id: "coder", user: USER })).rejects.toThrow();
    } finally {
      await bus.close();
    }
  },
  PROCESSES_MS,
);
