/**
 * The Kubernetes manifests of an agent, built by pure functions. The prompt is a Secret, because a checkpoint may be confidential, and so
 * are the credentials. The Job owns both Secrets, so deleting the Job deletes them, also while no runner runs.
 */
import { createHash } from "node:crypto";
import type { V1EnvVar, V1Job, V1PodSpec, V1Secret } from "@kubernetes/client-node";
import type { KubernetesSettings } from "../../../shared/protocol/runner-settings.ts";
import type { LaunchSpec } from "./launcher.ts";

export const AGENT_CONTAINER = "agent";
export const AGENT_LABEL = "fleet/agent";
const PROMPT_FOLDER = "/var/run/fleet";
const PROMPT_NAME = "prompt.md";
/** A folder of its own, because Kubernetes replaces it as a whole when the Secret changes. */
const ACCESS_FOLDER = "/var/run/fleet-access";
const CREDENTIALS_NAME = "bus.creds";
const CA_NAME = "ca.crt";
/** Readable for the agent's group alone: the files belong to root, and `fsGroup` is the agent's. */
const SECRET_MODE = 0o440;
const WORK_FOLDER = "/tmp";
/** The limit of a name in Kubernetes, less the suffix of pods. */
const NAME_CHARS = 52;
const HASH_CHARS = 10;

export interface JobOptions {
  readonly kubernetes: KubernetesSettings;
  readonly runMs: number | undefined;
  readonly graceMs: number;
}

/** Kubernetes names have no capitals and no underscores; the hash distinguishes agents whose ids differ only in those. */
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
      // Kubernetes must not restart the agent: recovery decides that, because it knows the task.
      backoffLimit: 0,
      ttlSecondsAfterFinished: kubernetes.kept_seconds,
      ...(runMs !== undefined && { activeDeadlineSeconds: seconds(runMs) }),
      template: { metadata: { labels }, spec: podSpec(spec, name, kubernetes, graceMs) },
    },
  };
}

/** `uid` is that of the Job, which owns the Secret. */
export function promptSecret(
  spec: LaunchSpec,
  prompt: Uint8Array,
  { namespace }: KubernetesSettings,
  uid: string,
): V1Secret {
  const job = { name: jobName(spec.name), namespace, uid };
  const data = { [PROMPT_NAME]: Buffer.from(prompt).toString("base64") };
  return { ...secretOf(job, job.name, data), immutable: true };
}

/** A Job as its Secrets refer to it. */
export interface JobReference {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

export const accessName = ({ name }: Pick<JobReference, "name">): string => `${name}-access`;

/** Whether the Job's pod waits for the Secret with its credentials. */
export const needsAccess = ({ metadata, spec }: V1Job): boolean =>
  (spec?.template.spec?.volumes ?? []).some(
    ({ secret }) => secret?.secretName === accessName({ name: metadata?.name ?? "" }),
  );

/** It can be changed, unlike the prompt: the credentials are renewed. */
export function accessSecret(
  job: JobReference,
  credentials: Uint8Array,
  ca: Uint8Array | undefined,
): V1Secret {
  return secretOf(job, accessName(job), {
    [CREDENTIALS_NAME]: Buffer.from(credentials).toString("base64"),
    ...(ca !== undefined && { [CA_NAME]: Buffer.from(ca).toString("base64") }),
  });
}

function secretOf(
  { name: job, namespace, uid }: JobReference,
  name: string,
  data: V1Secret["data"] & {},
): V1Secret {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name,
      namespace,
      labels: { "app.kubernetes.io/name": "fleet-agent", [AGENT_LABEL]: job },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: job, uid }],
    },
    type: "Opaque",
    data,
  };
}

function podSpec(spec: LaunchSpec, name: string, kubernetes: KubernetesSettings, graceMs: number): V1PodSpec {
  const { service_account, image_pull_secrets, node_selector, run_as_user } = kubernetes;
  const hasAccess = spec.access !== undefined;
  return {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: seconds(graceMs),
    // An agent runs what a model says, so it gets no access to the cluster.
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
        // `command` and not `args`: the settings decide what starts, and not the entry point of the image.
        command: spec.argv.map(literal),
        env: environment(spec),
        envFrom: kubernetes.env_from_secrets.map((secret) => ({ secretRef: { name: secret } })),
        resources: { requests: kubernetes.requests, limits: kubernetes.limits },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        volumeMounts: [
          { name: "prompt", mountPath: PROMPT_FOLDER, readOnly: true },
          ...(hasAccess ? [{ name: "access", mountPath: ACCESS_FOLDER, readOnly: true }] : []),
        ],
      },
    ],
    volumes: [
      { name: "prompt", secret: { secretName: name, defaultMode: SECRET_MODE } },
      ...(hasAccess
        ? [{ name: "access", secret: { secretName: accessName({ name }), defaultMode: SECRET_MODE } }]
        : []),
    ],
  };
}

/** Kubernetes would expand `$(NAME)` unless the dollar is doubled. */
const literal = (text: string): string => text.replaceAll("$(", () => "$$(");

/** Paths of the runner's machine mean nothing in the container. */
function environment({ env, access }: LaunchSpec): V1EnvVar[] {
  const variables: Record<string, string> = {
    ...env,
    ...(access !== undefined && { FLEET_NATS_CREDS: `${ACCESS_FOLDER}/${CREDENTIALS_NAME}` }),
    ...(access?.ca !== undefined && { FLEET_NATS_CA: `${ACCESS_FOLDER}/${CA_NAME}` }),
    FLEET_PROMPT_FILE: `${PROMPT_FOLDER}/${PROMPT_NAME}`,
    FLEET_SPOOL_DIR: `${WORK_FOLDER}/fleet-spool`,
  };
  delete variables.FLEET_EXIT_FILE;
  return Object.entries(variables)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value: literal(value) }));
}

const seconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));
