// The credentials of agents that run as Jobs: the launcher with the official client and the rights of the runner's Role, against a stand-in for
// the API of a cluster, and credentials that a real signing service issues for a real bus.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Secret } from "@kubernetes/client-node";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { signedAgentCredentials } from "../../../services/runner/agent/agent-credentials.ts";
import { launchSpec } from "../../../services/runner/command.ts";
import { readRunnerSettings } from "../../../services/runner/config.ts";
import { type AgentRecord, Journal } from "../../../services/runner/journal.ts";
import { KubernetesLauncher } from "../../../services/runner/launchers/kubernetes.ts";
import type { LaunchedAgent, LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { serveAgentCredentials } from "../../../services/signer/agent-credentials.ts";
import { issueGrant } from "../../../shared/bus/access/administration.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { type ManualClock, manualClock } from "../../harness/clock.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../harness/guarded-nats.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { type ApiServer, startApiServer } from "./api-server.ts";
import { FOLDER } from "./manifests.ts";

const POLL_MS = 2_000;
const AGENT = "implementation-0123456789ab";
const CA = "-----BEGIN CERTIFICATE-----\nthe authority of the bus\n";
const settings = readRunnerSettings(join(FOLDER, "runner/runner.json"));
const agentSettings = settings.agents.implementation!;
const log = testLog;

let api: ApiServer;
let folder: string;
let clock: ManualClock;
const launchers: KubernetesLauncher[] = [];
let record: AgentRecord;
let journal: Journal;
let kubeconfig: string | undefined;

beforeEach(async () => {
  api = await startApiServer();
  folder = mkdtempSync(join(tmpdir(), "fleet-job-access-"));
  clock = manualClock();
  kubeconfig = process.env.KUBECONFIG;
  process.env.KUBECONFIG = join(folder, "kubeconfig.json");
  writeFileSync(process.env.KUBECONFIG, JSON.stringify(configOf(api.url)));
  writeFileSync(join(folder, "ca.crt"), CA);
  journal = new Journal(join(folder, "agents"), log);
  record = {
    ...{ tenant: "default", agent_id: AGENT, agent_type: "implementation", task_id: "US-1", fence: 3 },
    ...{ handoff_id: "h", checkpoint_id: "c", offer_digest: "d", command_id: "i", launcher: "kubernetes" },
    ...{ first_checkpoint_ms: 1_000, traceparent: null, created_at: "", state: "accepted", report: null },
  } as const;
  mkdirSync(journal.paths(AGENT).folder);
  writeFileSync(journal.paths(AGENT).prompt, "Continue.");
});
afterEach(async () => {
  if (kubeconfig === undefined) delete process.env.KUBECONFIG;
  else process.env.KUBECONFIG = kubeconfig;
  await Promise.all(launchers.splice(0).map((launcher) => launcher.close()));
  await api.stop();
  rmSync(folder, { recursive: true, force: true });
});

const configOf = (server: string) => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "c", cluster: { server, "insecure-skip-tls-verify": true } }],
  users: [{ name: "runner", user: { token: "t" } }],
  contexts: [{ name: "c", context: { cluster: "c", user: "runner" } }],
  "current-context": "c",
});

const specOf = (hasCredentials = true): LaunchSpec =>
  launchSpec(record, agentSettings, journal.paths(AGENT), {
    url: "tls://nats.fleet.svc.cluster.local:4222",
    caFile: join(folder, "ca.crt"),
    spoolDir: "/data/spool",
    logBytes: 1_024,
    hasCredentials,
    env: {},
  });
const writeCredentials = (text: string): void => writeFileSync(journal.paths(AGENT).credentials, text);

/** A runner, or the next one after a kill. */
function startRunner(): KubernetesLauncher {
  const options = { kubernetes: agentSettings.kubernetes!, runMs: undefined, graceMs: settings.grace_ms };
  const launcher = new KubernetesLauncher(() => options, clock, log);
  launchers.push(launcher);
  return launcher;
}

const names = (): string[] => api.secrets().map(({ metadata }) => metadata?.name ?? "");
const access = (): V1Secret | undefined =>
  api.secrets().find(({ metadata }) => metadata?.name?.endsWith("-access"));
const content = (entry: string): string => Buffer.from(access()?.data?.[entry] ?? "", "base64").toString();

async function polled(ms = POLL_MS): Promise<void> {
  await clock.sleeping();
  await clock.advance(ms);
  await clock.sleeping();
}

function end(): void {
  const times = { startedAt: new Date(0), finishedAt: new Date(1) };
  const terminated = { ...times, exitCode: 0, reason: "Completed" };
  const containerStatuses = [{ name: "agent", state: { terminated } }];
  api.setPods([{ metadata: { name: "pod" }, status: { containerStatuses } } as never]);
}

test("the pod gets the credentials and the authority of the bus as files, in a Secret that the Job owns", async () => {
  writeCredentials("secret-1");
  await startRunner().start(specOf());
  const [job] = api.jobs();
  const name = job?.metadata?.name ?? "";
  expect(names()).toEqual([name, `${name}-access`]);
  expect(access()).toMatchObject({
    type: "Opaque",
    metadata: {
      namespace: "fleet-agents",
      ownerReferences: [{ kind: "Job", name, uid: job?.metadata?.uid }],
    },
  });
  expect(access()?.immutable).toBeUndefined();
  expect({ credentials: content("bus.creds"), ca: content("ca.crt") }).toEqual({
    credentials: "secret-1",
    ca: CA,
  });
  const pod = job?.spec?.template.spec;
  expect(pod?.automountServiceAccountToken).toBe(false);
  expect(pod?.volumes).toContainEqual({
    name: "access",
    secret: { secretName: `${name}-access`, defaultMode: 0o440 },
  });
  const [container] = pod?.containers ?? [];
  expect(container?.volumeMounts).toContainEqual({
    name: "access",
    mountPath: "/var/run/fleet-access",
    readOnly: true,
  });
  expect(container?.env).toContainEqual({
    name: "FLEET_NATS_CREDS",
    value: "/var/run/fleet-access/bus.creds",
  });
  expect(container?.env).toContainEqual({ name: "FLEET_NATS_CA", value: "/var/run/fleet-access/ca.crt" });
  expect(container?.env).toContainEqual({ name: "FLEET_AGENT_ID", value: AGENT });
  expect(JSON.stringify(job)).not.toContain("secret-1");
  expect(JSON.stringify(job)).not.toContain(folder);
});

test("an agent for which no signing service answers has no such Secret, and its Job none to wait for", async () => {
  await startRunner().start(specOf(false));
  expect(names()).toHaveLength(1);
  const pod = api.jobs()[0]?.spec?.template.spec;
  expect(pod?.volumes?.map(({ name }) => name)).toEqual(["prompt"]);
  expect(pod?.containers[0]?.env?.map(({ name }) => name)).not.toContain("FLEET_NATS_CREDS");
});

test("renewed credentials reach the Secret at the next look, and nothing is written without need", async () => {
  writeCredentials("secret-1");
  await startRunner().start(specOf());
  await polled();
  const updates = () => api.calls.filter((call) => call === "update secrets").length;
  const before = updates();
  await polled();
  expect(updates()).toBe(before);
  writeCredentials("secret-2");
  await polled();
  expect(content("bus.creds")).toBe("secret-2");
  expect(updates()).toBe(before + 1);
  // Nothing but the launcher's rights was used: it never reads a Secret.
  expect(api.calls.filter((call) => /^(get|list|patch) secrets/.test(call))).toEqual([]);
});

test("a restarted runner finds the Job, and writes what was renewed meanwhile", async () => {
  writeCredentials("secret-1");
  const first = startRunner();
  await first.start(specOf());
  await first.close();
  writeCredentials("secret-2");
  await startRunner().start(specOf());
  await polled();
  expect(api.jobs()).toHaveLength(1);
  expect(content("bus.creds")).toBe("secret-2");
});

test("the credentials leave the cluster when the agent ends, before its end is recorded; the Job stays", async () => {
  writeCredentials("secret-1");
  const agent = await startRunner().start(specOf());
  await clock.sleeping();
  end();
  await clock.advance(POLL_MS);
  await agent.exited;
  expect(access()).toBeUndefined();
  expect(api.jobs()).toHaveLength(1);
  expect(names()).toHaveLength(1);
});

test("a runner that was killed between the end of an agent and its record removes the credentials once more", async () => {
  writeCredentials("secret-1");
  const first = startRunner();
  await first.start(specOf());
  await first.close();
  end();
  const agent = await startRunner().start(specOf());
  expect(await agent.exited).toMatchObject({ code: 0 });
  expect(access()).toBeUndefined();
});

test("a stopped agent loses its Job, and with it both Secrets", async () => {
  writeCredentials("secret-1");
  const agent = await startRunner().start(specOf());
  await clock.sleeping();
  const stopped = agent.stop(1_000);
  await expect.poll(() => api.jobs()).toEqual([]);
  await clock.advance(POLL_MS);
  await stopped;
  expect(await agent.exited).toMatchObject({ lost: true });
  expect(api.secrets()).toEqual([]);
});

test.each([1, 2, 3, 4])(
  "a runner that is cut off after call %d leaves nothing that the next one does not find, and no Secret without a Job",
  async (call) => {
    writeCredentials("secret-1");
    api.breakAfter(call);
    const killed = startRunner();
    await killed.start(specOf()).catch(() => {});
    await killed.close();
    api.repair();
    await startRunner().start(specOf());
    expect(api.jobs()).toHaveLength(1);
    expect(names()).toHaveLength(2);
    expect(content("bus.creds")).toBe("secret-1");
    const uid = api.jobs()[0]?.metadata?.uid;
    for (const { metadata } of api.secrets()) expect(metadata?.ownerReferences).toMatchObject([{ uid }]);
    api.deleteJob(api.jobs()[0]?.metadata?.name ?? "");
    expect(api.secrets()).toEqual([]);
  },
);

test("an agent whose Job was deleted leaves no Secret", async () => {
  writeCredentials("secret-1");
  await startRunner().start(specOf());
  await clock.sleeping();
  writeCredentials("secret-2");
  api.deleteJob(api.jobs()[0]?.metadata?.name ?? "");
  await clock.advance(POLL_MS);
  await expect.poll(() => api.secrets()).toEqual([]);
});

test("a cluster that refuses a renewal is asked again after a minute, and the agent keeps what it has", async () => {
  writeCredentials("secret-1");
  await startRunner().start(specOf());
  await polled();
  // An operator made the Secret immutable.
  const secret = access()!;
  await fetch(`${api.url}/api/v1/namespaces/fleet-agents/secrets/${secret.metadata?.name}`, {
    method: "PUT",
    body: JSON.stringify({ ...secret, immutable: true }),
  });
  writeCredentials("secret-2");
  await polled();
  expect(content("bus.creds")).toBe("secret-1");
  await fetch(`${api.url}/api/v1/namespaces/fleet-agents/secrets/${secret.metadata?.name}`, {
    method: "DELETE",
  });
  await polled();
  expect(access()).toBeUndefined();
  await polled(60_000);
  expect(content("bus.creds")).toBe("secret-2");
});

test("a Job of an earlier version, which has no credentials, gets no Secret", async () => {
  writeCredentials("secret-1");
  const paths = journal.paths(AGENT);
  writeFileSync(join(paths.folder, "job.json"), JSON.stringify({ name: "old", namespace: "fleet-agents" }));
  const agent = await startRunner().start(specOf());
  // The cluster does not have that Job any more.
  expect(await agent.exited).toMatchObject({ lost: true });
  expect(api.calls.filter((call) => call.endsWith(" secrets"))).toEqual([]);
});

// Last, because it needs a bus.
let nats: GuardedNats | undefined;
const buses: Bus[] = [];
beforeAll(() => {
  nats = undefined;
});
afterAll(async () => {
  await Promise.all(buses.map((bus) => bus.close()));
  await nats?.stop();
});

test("the file in the pod opens the bus for this one agent of the runner's tenant", async () => {
  nats = await startGuardedNats();
  const { account, roles } = nats.keys;
  const { text: creds } = await nats.issue(serviceGrant("signer"));
  const open = async (identity: string, options: object): Promise<Bus> => {
    const bus = await connectBus({ url: nats!.url, name: identity, identity, log, ...options });
    buses.push(bus);
    return bus;
  };
  const signer = await open("test", { service: "signer", credentials: { creds } });
  const keys = { account: account.getPublicKey(), roles };
  await serveAgentCredentials({ log, clock: systemClock, metrics: createMetrics(), keys }, signer);
  const grant = {
    role: "runner",
    tenant: "default",
    name: "runner-box",
    expiresAt: null,
    now: new Date(),
  } as const;
  const { credentials } = await issueGrant(nats.access, grant);
  const runner = await open("runner-box", { tenant: "default", credentials: { creds: credentials } });
  const source = signedAgentCredentials(runner, "runner-box", { clock: systemClock, log });
  const stop = await source.keep(record, journal.paths(AGENT).credentials);
  const agent: LaunchedAgent = await startRunner().start(specOf());
  await stop?.();
  expect(agent.isStarted).toBe(true);
  const inPod = join(folder, "bus.creds");
  writeFileSync(inPod, content("bus.creds"));
  expect(readFileSync(inPod, "utf8")).toContain("BEGIN NATS USER JWT");
  const bus = await open(AGENT, { tenant: "default", credentials: { credsFile: inPod } });
  const request = (subject: string) =>
    bus.request(subject, { body: Buffer.from("{}") }, { timeoutMs: 20_000 });
  // No writer runs, so a permitted command has no answer.
  const own = SUBJECTS.command("default", AGENT, "US-1", "create");
  await expect(request(own)).rejects.toMatchObject({ kind: "no_responders" });
  const others = [
    SUBJECTS.command("default", "other", "US-1", "create"),
    SUBJECTS.command("other", AGENT, "US-1", "create"),
    SUBJECTS.agentCredentials("default", "runner-box"),
  ];
  for (const subject of others)
    await expect(request(subject), subject).rejects.toMatchObject({ kind: "permission" });
});
