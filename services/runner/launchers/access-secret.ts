/**
 * The Secret with an agent's credentials, in the cluster. The runner renews a file; this keeps the Secret equal to it until the agent ends,
 * and the cluster brings each change into the pod. The runner may write Secrets and not read them, so a restarted runner writes it again.
 */
import { readFileSync } from "node:fs";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Cluster } from "./cluster.ts";
import { accessName, accessSecret, type JobReference } from "./job-manifest.ts";
import type { AgentAccess } from "./launcher.ts";

/** The pause after a failure: the credentials are renewed long before they end. */
const RETRY_MS = 60_000;

interface AccessSecretParts {
  readonly cluster: Pick<Cluster, "putSecret" | "removeSecret">;
  readonly access: AgentAccess;
  readonly job: JobReference;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Logger;
}

export class AccessSecret {
  readonly #parts: AccessSecretParts;
  /** The credentials and the authority that the cluster has, as far as is known. */
  #written: Buffer | undefined;
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(parts: AccessSecretParts) {
    this.#parts = parts;
  }

  /** Throws if the cluster refuses it, or the file cannot be read. */
  async put(): Promise<void> {
    const { cluster, access, job } = this.#parts;
    const credentials = readFileSync(access.credentials);
    const ca = access.ca === undefined ? undefined : readFileSync(access.ca);
    const content = Buffer.concat([credentials, ca ?? Buffer.alloc(0)]);
    if (this.#written?.equals(content)) return;
    await cluster.putSecret(accessSecret(job, credentials, ca));
    this.#written = content;
  }

  /** Writes renewed credentials. Never rejects: after a failure the pod has the earlier ones, and the next call after a pause tries again. */
  async renew(): Promise<void> {
    const { clock, log, job } = this.#parts;
    if (clock.monotonic() < this.#nextAt) return;
    const before = this.#written;
    try {
      await this.put();
      if (before !== this.#written)
        log.info({ job: job.name, namespace: job.namespace }, "credentials of the agent are in the cluster");
    } catch (error) {
      this.#nextAt = clock.monotonic() + RETRY_MS;
      log.warn(
        { job: job.name, namespace: job.namespace, error },
        "renewed credentials of an agent cannot be written to the cluster",
      );
    }
  }

  /** The agent has ended, and the Job stays for a while. Never rejects: the Secret ends with the Job, and the credentials within the hour. */
  async remove(): Promise<void> {
    const { cluster, job, log } = this.#parts;
    try {
      await cluster.removeSecret(job.namespace, accessName(job));
    } catch (error) {
      log.warn(
        { job: job.name, namespace: job.namespace, error },
        "the credentials of an ended agent cannot be removed from the cluster",
      );
    }
  }
}
