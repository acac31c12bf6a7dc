// The launcher of Jobs on a real cluster, with the rights and the namespace that deploy/kubernetes/runner gives to the runner.
//
// FLEET_TEST_KUBECONFIG names the file of an administrator of a cluster. Each run makes a namespace and deletes it at the end. A cluster without
// a node that is ready runs no pod: there the tests of running agents are skipped. FLEET_TEST_KUBE_IMAGE names an image with a shell.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  ApiException,
  BatchV1Api,
  CoreV1Api,
  KubeConfig,
  RbacAuthorizationV1Api,
  type V1Role,
  type V1Secret,
} from "@kubernetes/client-node";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { agentFiles } from "../../../services/runner/launchers/agent-folder.ts";
import { jobName } from "../../../services/runner/launchers/job-manifest.ts";
import { KubernetesLauncher } from "../../../services/runner/launchers/kubernetes.ts";
import type { LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { kubernetesSettingsSchema } from "../../../shared/protocol/runner-settings.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { rawResources } from "./manifests.ts";

const KUBECONFIG = process.env.FLEET_TEST_KUBECONFIG;
const IMAGE = process.env.FLEET_TEST_KUBE_IMAGE ?? "busybox:1.37.0";
if (KUBECONFIG === undefined)
  process.stderr.write(
    "runner: no Job runs on a cluster, because FLEET_TEST_KUBECONFIG names no kubeconfig\n",
  );

/** A node may have to fetch the image first. */
const TEST_MS = 240_000;
const SOON = { timeout: 120_000, interval: 500 };
const GRACE_MS = 2_000;
const PROMPT = "Continue with the tests.\n";

describe.skipIf(KUBECONFIG === undefined)(
  "on the cluster of FLEET_TEST_KUBECONFIG",
  { timeout: TEST_MS },
  () => {
    const namespace = `fleet-test-${uuidv7().slice(-12)}`;
    const folder = mkdtempSync(join(tmpdir(), "fleet-kubernetes-"));
    const administrator = new KubeConfig();
    const usual = process.env.KUBECONFIG;
    let core: CoreV1Api;
    let batch: BatchV1Api;
    let hasNode = false;

    beforeAll(async () => {
      administrator.loadFromFile(KUBECONFIG!);
      core = administrator.makeApiClient(CoreV1Api);
      batch = administrator.makeApiClient(BatchV1Api);
      const [{ metadata }] = rawResources().get("runner/namespace.yaml") as unknown as [{ metadata: object }];
      await core.createNamespace({ body: { metadata: { ...metadata, name: namespace } } });
      const { items } = await core.listNode();
      hasNode = items.some(({ status }) =>
        status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
      );
      process.env.KUBECONFIG = await runnerConfig();
    }, TEST_MS);
    afterAll(async () => {
      if (usual === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = usual;
      await core?.deleteNamespace({ name: namespace });
      rmSync(folder, { recursive: true, force: true });
    }, TEST_MS);

    /** The file of a service account that has the runner's Role and nothing else. */
    async function runnerConfig(): Promise<string> {
      const roles = administrator.makeApiClient(RbacAuthorizationV1Api);
      const [, role] = rawResources().get("runner/access.yaml") as unknown as [unknown, V1Role];
      await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: "runner" } } });
      await roles.createNamespacedRole({ namespace, body: role });
      await roles.createNamespacedRoleBinding({
        namespace,
        body: {
          metadata: { name: "runner" },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "runner" },
          subjects: [{ kind: "ServiceAccount", name: "runner", namespace }],
        },
      });
      const { status } = await core.createNamespacedServiceAccountToken({
        ...{ namespace, name: "runner" },
        body: { spec: { audiences: [], expirationSeconds: 3_600 } },
      });
      const config = new KubeConfig();
      config.loadFromClusterAndUser(administrator.getCurrentCluster()!, {
        ...{ name: "runner", token: status?.token ?? "" },
      });
      const path = join(folder, "runner.json");
      writeFileSync(path, config.exportConfig());
      return path;
    }

    function startRunner(): KubernetesLauncher {
      const kubernetes = kubernetesSettingsSchema.parse({
        ...{ namespace, image: IMAGE },
        ...{ requests: { cpu: "10m", memory: "16Mi" }, limits: { cpu: "1", memory: "64Mi" } },
      });
      const launcher = new KubernetesLauncher(
        () => ({ kubernetes, runMs: undefined, graceMs: GRACE_MS }),
        systemClock,
        testLog,
      );
      onTestFinished(() => launcher.close());
      return launcher;
    }

    function specOf(script: string): LaunchSpec {
      const name = `qa-${uuidv7().slice(-12)}`;
      const own = join(folder, name);
      mkdirSync(own);
      const [prompt, credentials] = [join(own, "prompt.md"), join(own, "fleet.creds")];
      writeFileSync(prompt, PROMPT);
      writeFileSync(credentials, "secret-1\n");
      return {
        ...{ name, agentType: "qa", folder: own, argv: ["/bin/sh", "-c", script], cwd: "/", logBytes: 4_096 },
        ...{
          env: { FLEET_TASK: "US-1" },
          prompt: { channel: "file", path: prompt },
          access: { credentials },
        },
      };
    }

    const isMissing = (error: unknown): boolean => error instanceof ApiException && error.code === 404;
    async function secretOf(name: string): Promise<V1Secret | undefined> {
      try {
        return await core.readNamespacedSecret({ namespace, name });
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    }
    const credentialsOf = async (job: string): Promise<string> =>
      Buffer.from((await secretOf(`${job}-access`))?.data?.["bus.creds"] ?? "", "base64").toString();
    const jobs = async (job: string) =>
      (await batch.listNamespacedJob({ namespace, fieldSelector: `metadata.name=${job}` })).items;
    function needNode({ skip }: TestContext): void {
      if (!hasNode) skip("the cluster has no node that is ready");
    }

    test("a Job and its Secrets have one owner, are found again by the next runner, and end with the Job", async () => {
      const spec = specOf("sleep 600");
      const job = jobName(spec.name);
      const first = startRunner();
      await first.start(spec);
      await first.close();
      const [made] = await jobs(job);
      for (const name of [job, `${job}-access`])
        expect((await secretOf(name))?.metadata?.ownerReferences, name).toMatchObject([
          { kind: "Job", name: job, uid: made?.metadata?.uid },
        ]);
      expect((await secretOf(job))?.immutable).toBe(true);
      expect(await credentialsOf(job)).toBe("secret-1\n");

      const next = startRunner();
      expect(next.knows(spec.folder)).toBe(true);
      const agent = await next.start(spec);
      expect(agent.isStarted).toBe(true);
      expect((await jobs(job)).map(({ metadata }) => metadata?.uid)).toEqual([made?.metadata?.uid]);
      writeFileSync(spec.access!.credentials, "secret-2\n");
      await expect.poll(() => credentialsOf(job), SOON).toBe("secret-2\n");

      await agent.stop(GRACE_MS);
      await agent.exited;
      await expect.poll(() => jobs(job), SOON).toEqual([]);
      await expect.poll(() => secretOf(job), SOON).toBeUndefined();
      await expect.poll(() => secretOf(`${job}-access`), SOON).toBeUndefined();
    });

    test("the runner may read no Secret, and make no Job elsewhere", async () => {
      const runner = new KubeConfig();
      runner.loadFromFile(process.env.KUBECONFIG!);
      const refused = { code: 403 };
      const secrets = runner.makeApiClient(CoreV1Api);
      await expect(secrets.listNamespacedSecret({ namespace })).rejects.toMatchObject(refused);
      const own = runner.makeApiClient(BatchV1Api);
      await expect(own.readNamespacedJob({ namespace: "default", name: "a" })).rejects.toMatchObject(refused);
    });

    test("an agent reads its prompt and its credentials, and its end and its output are kept", async (context) => {
      needNode(context);
      const spec = specOf('cat "$FLEET_PROMPT_FILE" "$FLEET_NATS_CREDS"; id -u; exit 7');
      const agent = await startRunner().start(spec);
      expect(await agent.exited).toMatchObject({ code: 7, signal: null, problem: null, lost: false });
      expect(readFileSync(agentFiles(spec.folder).output, "utf8")).toBe(`${PROMPT}secret-1\n1000\n`);
      // The credentials leave the cluster with the agent, and the Job stays for a while.
      expect(await secretOf(`${jobName(spec.name)}-access`)).toBeUndefined();
      expect(await jobs(jobName(spec.name))).toHaveLength(1);
      // A runner that starts later knows the end.
      expect(await (await startRunner().start(spec)).exited).toMatchObject({ code: 7 });
    });

    test("an agent that is stopped gets SIGTERM, and its Job is deleted", async (context) => {
      needNode(context);
      const spec = specOf("trap 'exit 5' TERM; echo up; while :; do sleep 0.2; done");
      const job = jobName(spec.name);
      const agent = await startRunner().start(spec);
      const state = async () =>
        (await core.listNamespacedPod({ namespace, labelSelector: `fleet/agent=${job}` })).items.map(
          ({ status }) => status?.phase,
        );
      await expect.poll(state, SOON).toEqual(["Running"]);
      await agent.stop(60_000);
      // The pod's end is seen before it is gone, or not at all.
      const { code, lost } = await agent.exited;
      expect([
        { code: 5, lost: false },
        { code: null, lost: true },
      ]).toContainEqual({ code, lost });
      await expect.poll(() => jobs(job), SOON).toEqual([]);
    });

    test("a program that the image does not have is a failed start", async (context) => {
      needNode(context);
      const spec = { ...specOf(""), argv: ["/no/such/program"] };
      const { problem } = await (await startRunner().start(spec)).exited;
      expect(problem).toContain("/no/such/program");
    });
  },
);
