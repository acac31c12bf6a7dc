/** Agents as Kubernetes Jobs: the manifests, and the exit that follows from the state of a Job and its pods. */
import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { jobExit } from "../../../services/runner/launchers/job-exit.ts";
import {
  jobManifest,
  jobName,
  needsAccess,
  promptSecret,
} from "../../../services/runner/launchers/job-manifest.ts";
import type { LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { kubernetesSettingsSchema } from "../../../shared/protocol/runner-settings.ts";

const SPEC: LaunchSpec = {
  name: "qa-0123456789ab",
  agentType: "qa",
  folder: "/agents/qa-0123456789ab",
  argv: ["run", "--task=US-003", "$(not a shell)"],
  env: {
    FLEET_TASK: "US-003",
    FLEET_PROMPT_FILE: "/agents/qa-0123456789ab/prompt.md",
    FLEET_EXIT_FILE: "/agents/qa-0123456789ab/word.json",
    FLEET_SPOOL_DIR: "/home/.fleet/spool",
    WORD: "$(FLEET_TASK)",
  },
  cwd: "/",
  prompt: { channel: "file", path: "/agents/qa-0123456789ab/prompt.md" },
  logBytes: 1_024,
};
const KUBERNETES = kubernetesSettingsSchema.parse({
  namespace: "agents",
  image: "registry/agent:1",
  service_account: "agent",
  image_pull_secrets: ["pull"],
  requests: { cpu: "1" },
  limits: { memory: "2Gi" },
  labels: { team: "a" },
  node_selector: { pool: "agents" },
  env_from_secrets: ["model-keys"],
});
const NAME = jobName(SPEC.name);
const LABELS = { team: "a", "app.kubernetes.io/name": "fleet-agent", "fleet/agent": NAME };

test("a Job with credentials waits for their Secret, which a runner that finds the Job can see", () => {
  const job = (spec: LaunchSpec) => jobManifest(spec, { kubernetes: KUBERNETES, runMs: 1, graceMs: 1 });
  expect(needsAccess(job(SPEC))).toBe(false);
  expect(needsAccess(job({ ...SPEC, access: { credentials: "/agents/bus.creds" } }))).toBe(true);
});

test("a Job has one pod, never restarts, and has no access to the cluster", () => {
  expect(jobManifest(SPEC, { kubernetes: KUBERNETES, runMs: 3_600_000, graceMs: 20_500 })).toEqual({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: NAME, namespace: "agents", labels: LABELS },
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: 3_600,
      activeDeadlineSeconds: 3_600,
      template: {
        metadata: { labels: LABELS },
        spec: {
          restartPolicy: "Never",
          terminationGracePeriodSeconds: 21,
          automountServiceAccountToken: false,
          serviceAccountName: "agent",
          imagePullSecrets: [{ name: "pull" }],
          nodeSelector: { pool: "agents" },
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 1_000,
            fsGroup: 1_000,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: "agent",
              image: "registry/agent:1",
              command: ["run", "--task=US-003", "$$(not a shell)"],
              env: [
                { name: "FLEET_PROMPT_FILE", value: "/var/run/fleet/prompt.md" },
                { name: "FLEET_SPOOL_DIR", value: "/tmp/fleet-spool" },
                { name: "FLEET_TASK", value: "US-003" },
                { name: "WORD", value: "$$(FLEET_TASK)" },
              ],
              envFrom: [{ secretRef: { name: "model-keys" } }],
              resources: { requests: { cpu: "1" }, limits: { memory: "2Gi" } },
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
              volumeMounts: [{ name: "prompt", mountPath: "/var/run/fleet", readOnly: true }],
            },
          ],
          volumes: [{ name: "prompt", secret: { secretName: NAME, defaultMode: 0o440 } }],
        },
      },
    },
  });
});

test("the prompt is a Secret that the Job owns, unchanged to the byte", () => {
  const prompt = Buffer.from("'; rm -rf / #\n\u0000é🚀\n");
  const secret = promptSecret(SPEC, prompt, KUBERNETES, "uid-1");
  expect(secret.metadata).toMatchObject({
    name: NAME,
    namespace: "agents",
    ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: NAME, uid: "uid-1" }],
  });
  expect(Buffer.from(secret.data?.["prompt.md"] ?? "", "base64")).toEqual(prompt);
});

test("names are valid in Kubernetes and unique to an agent", () => {
  const ids = ["qa-1", "QA-1", "qa_1", "q".repeat(64), `${"q".repeat(63)}r`, "_", "-a-"];
  const names = ids.map(jobName);
  for (const name of names) expect(name).toMatch(/^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$/);
  expect(new Set(names).size).toBe(ids.length);
});

describe("the exit, read from a Job and its pods", () => {
  const now = "2026-01-01T01:00:00.000Z";
  const job: V1Job = { status: { startTime: new Date("2026-01-01T00:00:00Z"), active: 1 } };
  const pod = (state: object): V1Pod[] => [
    { status: { containerStatuses: [{ name: "agent", state } as never] } },
  ];
  const terminated = (more: object): V1Pod[] =>
    pod({
      terminated: {
        startedAt: new Date("2026-01-01T00:00:01Z"),
        finishedAt: new Date("2026-01-01T00:00:09Z"),
        ...more,
      },
    });

  test("is undefined while the pod waits or runs", () => {
    expect(jobExit(job, [], now)).toBeUndefined();
    expect(jobExit(job, pod({ waiting: { reason: "ContainerCreating" } }), now)).toBeUndefined();
    expect(jobExit(job, pod({ running: {} }), now)).toBeUndefined();
  });

  test("is an exit code, or the signal that the code stands for", () => {
    expect(jobExit(job, terminated({ exitCode: 75 }), now)).toEqual({
      code: 75,
      signal: null,
      problem: null,
      outOfMemory: false,
      lost: false,
      startedAt: "2026-01-01T00:00:01.000Z",
      endedAt: "2026-01-01T00:00:09.000Z",
    });
    expect(jobExit(job, terminated({ exitCode: 143 }), now)).toMatchObject({ code: null, signal: "SIGTERM" });
  });

  test("is out of memory if the cluster reports it", () => {
    expect(jobExit(job, terminated({ exitCode: 137, reason: "OOMKilled" }), now)).toMatchObject({
      signal: "SIGKILL",
      outOfMemory: true,
    });
  });

  test("is a failed start if the image or the program is missing", () => {
    const missing = terminated({ exitCode: 128, reason: "StartError", message: "exec: run: not found" });
    expect(jobExit(job, missing, now)).toMatchObject({ problem: "exec: run: not found" });
    const image = pod({ waiting: { reason: "ImagePullBackOff", message: "no such image" } });
    expect(jobExit(job, image, now)).toMatchObject({ problem: "ImagePullBackOff: no such image" });
  });

  test("is a passed deadline, or lost if the Job was deleted", () => {
    const failed: V1Job = {
      status: { conditions: [{ type: "Failed", status: "True", reason: "DeadlineExceeded" }] },
    };
    expect(jobExit(failed, [], now)).toMatchObject({ signal: "SIGXCPU", lost: false });
    expect(jobExit(null, [], now)).toMatchObject({ lost: true, problem: null });
  });
});
