/**
 * An agent as a Kubernetes Job: the manifests, made by a pure function. The prompt is a Secret of its own, because a checkpoint may say
 * what is nobody else's business, and it belongs to the Job: whoever removes the Job removes both.
 */
import { createHash } from "node:crypto";
import type { V1EnvVar, V1Job, V1PodSpec, V1Secret } from "@kubernetes/client-node";
import type { KubernetesSettings } from "../../../shared/protocol/runner-settings.ts";
import type { LaunchSpec } from "./launcher.ts";

export const AGENT_CONTAINER = "agent";
export const AGENT_LABEL = "fleet/agent";
const PROMPT_FOLDER = "/var/run/fleet";
const PROMPT_NAME = "prompt.md";
const WORK_FOLDER = "/tmp";
/** Of a name in Kubernetes, less what it adds for pods. */
const NAME_CHARS = 52;
const HASH_CHARS = 10;

export interface JobOptions {
  readonly kubernetes: KubernetesSettings;
  readonly runMs: number | undefined;
  readonly graceMs: number;
}

/** Names in Kubernetes have no capitals and no underscores; the hash keeps two agents apart that differ in those alone. */
export function jobName(agentId: string): string {
  const plain = agentId.toLowerCase().replace(/[^a-z0-9-]/g, "-");
  const hash = createHash("sha256").update(agentId).digest("hex").slice(0, HASH_CHARS);
  const rest = NAME_CHARS - "fleet--".length - HASH_CHARS;
  return `fleet-${plain.slice(0, rest).replace(/^-+|-+$/g, "") || "agent"}-${hash}`;
}

export function jobManifest(spec: LaunchSpec, { kubernetes, runMs, graceMs }: JobOptions): V1Job {
  const name = jobName(spec.name);
  const labels = { ...kubernetes.labels, "app.kubernetes.io/name": "fleet-agent", [AGENT_LABEL]: name };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: kubernetes.namespace, labels },
    spec: {
      // Whether an agent is started again is decided by who sees the task, not by who sees the container.
      backoffLimit: 0,
      ttlSecondsAfterFinished: kubernetes.kept_seconds,
      ...(runMs !== undefined && { activeDeadlineSeconds: seconds(runMs) }),
      template: { metadata: { labels }, spec: podSpec(spec, name, kubernetes, graceMs) },
    },
  };
}

/** `uid`: of the Job, which owns it. */
export function promptSecret(
  spec: LaunchSpec,
  prompt: Uint8Array,
  { namespace }: KubernetesSettings,
  uid: string,
): V1Secret {
  const name = jobName(spec.name);
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name,
      namespace,
      labels: { "app.kubernetes.io/name": "fleet-agent", [AGENT_LABEL]: name },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid }],
    },
    immutable: true,
    type: "Opaque",
    data: { [PROMPT_NAME]: Buffer.from(prompt).toString("base64") },
  };
}

function podSpec(spec: LaunchSpec, name: string, kubernetes: KubernetesSettings, graceMs: number): V1PodSpec {
  const { service_account, image_pull_secrets, node_selector, run_as_user } = kubernetes;
  return {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: seconds(graceMs),
    // An agent runs what a model says: it gets no key to the cluster.
    automountServiceAccountToken: false,
    ...(service_account !== undefined && { serviceAccountName: service_account }),
    ...(image_pull_secrets.length > 0 && {
      imagePullSecrets: image_pull_secrets.map((secret) => ({ name: secret })),
    }),
    ...(Object.keys(node_selector).length > 0 && { nodeSelector: node_selector }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: run_as_user,
      fsGroup: run_as_user,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: AGENT_CONTAINER,
        image: kubernetes.image,
        // `command` and not `args`: what is started is what the settings say, whatever the image would start.
        command: spec.argv.map(literal),
        env: environment(spec),
        envFrom: kubernetes.env_from_secrets.map((secret) => ({ secretRef: { name: secret } })),
        resources: { requests: kubernetes.requests, limits: kubernetes.limits },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        volumeMounts: [{ name: "prompt", mountPath: PROMPT_FOLDER, readOnly: true }],
      },
    ],
    volumes: [{ name: "prompt", secret: { secretName: name, defaultMode: 0o440 } }],
  };
}

/** Kubernetes would replace `$(NAME)`, unless its dollar is doubled. */
const literal = (text: string): string => text.replaceAll("$(", () => "$$(");

/** Paths of this machine mean nothing there. */
function environment({ env }: LaunchSpec): V1EnvVar[] {
  const there: Record<string, string> = {
    ...env,
    FLEET_PROMPT_FILE: `${PROMPT_FOLDER}/${PROMPT_NAME}`,
    FLEET_SPOOL_DIR: `${WORK_FOLDER}/fleet-spool`,
  };
  delete there.FLEET_EXIT_FILE;
  return Object.entries(there)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value: literal(value) }));
}

const seconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));
