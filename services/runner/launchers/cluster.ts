/** The calls of the launcher to a Kubernetes cluster. The official client is loaded only when it is used. */
import type { V1Job, V1Pod, V1Secret } from "@kubernetes/client-node";
import { loadOptional } from "../../../shared/runtime/process/optional-package.ts";
import { AGENT_LABEL } from "./job-manifest.ts";

export interface Cluster {
  /** Resolves with the Job, new or existing. */
  createJob(job: V1Job): Promise<V1Job>;
  /** Does nothing if the Secret exists. */
  createSecret(secret: V1Secret): Promise<void>;
  /** Creates the Secret, or replaces it as a whole. It is never read. */
  putSecret(secret: V1Secret): Promise<void>;
  /** Does nothing if there is none. */
  removeSecret(namespace: string, name: string): Promise<void>;
  /** null: the Job does not exist. */
  job(namespace: string, name: string): Promise<V1Job | null>;
  pods(namespace: string, name: string): Promise<V1Pod[]>;
  log(namespace: string, pod: string, bytes: number): Promise<string>;
  /** Deletes the Job and ends its pods. */
  removeJob(namespace: string, name: string): Promise<void>;
}

const CONFLICT = 409;
const NOT_FOUND = 404;

/** Finds the cluster by the usual rules: `KUBECONFIG`, `~/.kube/config`, or the service account of the runner's pod. */
export async function openCluster(): Promise<Cluster> {
  const { ApiException, BatchV1Api, CoreV1Api, KubeConfig } = await loadOptional(
    "the launcher kubernetes",
    ["@kubernetes/client-node"],
    () => import("@kubernetes/client-node"),
  );
  const config = new KubeConfig();
  config.loadFromDefault();
  const batch = config.makeApiClient(BatchV1Api);
  const core = config.makeApiClient(CoreV1Api);

  async function unless<T>(code: number, call: Promise<T>): Promise<T | null> {
    try {
      return await call;
    } catch (error) {
      if (error instanceof ApiException && error.code === code) return null;
      throw error;
    }
  }

  return {
    async createJob(body) {
      const { namespace = "default", name = "" } = body.metadata ?? {};
      const created = await unless(CONFLICT, batch.createNamespacedJob({ namespace, body }));
      return created ?? batch.readNamespacedJob({ namespace, name });
    },
    async createSecret(body) {
      const { namespace = "default" } = body.metadata ?? {};
      await unless(CONFLICT, core.createNamespacedSecret({ namespace, body }));
    },
    async putSecret(body) {
      const { namespace = "default", name = "" } = body.metadata ?? {};
      const replaced = await unless(NOT_FOUND, core.replaceNamespacedSecret({ namespace, name, body }));
      if (replaced === null) await core.createNamespacedSecret({ namespace, body });
    },
    async removeSecret(namespace, name) {
      await unless(NOT_FOUND, core.deleteNamespacedSecret({ namespace, name }));
    },
    job: (namespace, name) => unless(NOT_FOUND, batch.readNamespacedJob({ namespace, name })),
    async pods(namespace, name) {
      const { items } = await core.listNamespacedPod({ namespace, labelSelector: `${AGENT_LABEL}=${name}` });
      return items;
    },
    log: (namespace, name, limitBytes) =>
      core.readNamespacedPodLog({ namespace, name, limitBytes, tailLines: 10_000 }),
    async removeJob(namespace, name) {
      await unless(
        NOT_FOUND,
        batch.deleteNamespacedJob({ namespace, name, propagationPolicy: "Foreground" }),
      );
    },
  };
}
