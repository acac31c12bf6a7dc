/** Agents as Kubernetes Jobs. A restarted runner finds them in the cluster by name. */
import { readFileSync } from "node:fs";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { readJson, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { AccessSecret } from "./access-secret.ts";
import { agentFiles, readExit } from "./agent-folder.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { jobExit } from "./job-exit.ts";
import { type JobOptions, jobManifest, jobName, needsAccess, promptSecret } from "./job-manifest.ts";
import type { Exit, LaunchedAgent, Launcher, LaunchSpec } from "./launcher.ts";

const POLL_MS = 2_000;
const KILLED_MS = 10_000;

interface JobNote {
  readonly name: string;
  readonly namespace: string;
  /** Absent in the notes of earlier versions, whose Jobs have no credentials. */
  readonly uid?: string | undefined;
}

export class KubernetesLauncher implements Launcher {
  readonly #optionsOf: (agentType: string) => JobOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  #cluster: Promise<Cluster> | undefined;

  constructor(optionsOf: (agentType: string) => JobOptions, clock: Clock, log: Logger) {
    this.#optionsOf = optionsOf;
    this.#clock = clock;
    this.#log = log;
  }

  knows(folder: string): boolean {
    return readJson(agentFiles(folder).job) !== undefined;
  }

  async start(spec: LaunchSpec): Promise<LaunchedAgent> {
    this.#cluster ??= openCluster();
    const cluster = await this.#cluster;
    const note = readJson<JobNote>(agentFiles(spec.folder).job) ?? (await this.#create(cluster, spec));
    const exited = this.#watch(cluster, spec, note);
    return {
      pid: null,
      isStarted: true,
      exited,
      stop: async (graceMs) => {
        // The pod has the grace period of the settings; the Job stays until its pod has ended.
        await cluster.removeJob(note.namespace, note.name);
        await Promise.race([exited, this.#clock.sleep(graceMs + KILLED_MS)]);
      },
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  async #create(cluster: Cluster, spec: LaunchSpec): Promise<JobNote> {
    const options = this.#optionsOf(spec.agentType);
    const job = await cluster.createJob(jobManifest(spec, options));
    const uid = job.metadata?.uid ?? "";
    const note = { name: jobName(spec.name), namespace: options.kubernetes.namespace, uid };
    // The pod waits for its Secrets. If the runner is killed here, the next one finds the Job and creates them; if the Job is deleted,
    // the cluster deletes every Secret that names it as owner, also one that is created later.
    const prompt = readFileSync(spec.prompt.path);
    // The Job of an earlier attempt waits for credentials that this attempt does not have: the launch is tried again later.
    if (spec.access === undefined && needsAccess(job))
      throw new Error("the agent's Job waits for credentials");
    await cluster.createSecret(promptSecret(spec, prompt, options.kubernetes, uid));
    await this.#accessOf(cluster, spec, note)?.put();
    writeWhole(agentFiles(spec.folder).job, JSON.stringify(note));
    return note;
  }

  #accessOf(cluster: Cluster, { access }: LaunchSpec, { uid, ...job }: JobNote): AccessSecret | undefined {
    if (access === undefined || uid === undefined) return undefined;
    return new AccessSecret({ cluster, access, job: { ...job, uid }, clock: this.#clock, log: this.#log });
  }

  async #watch(cluster: Cluster, spec: LaunchSpec, note: JobNote): Promise<Exit> {
    const recorded = readExit(spec.folder);
    if (recorded !== undefined) return recorded;
    const access = this.#accessOf(cluster, spec, note);
    for (;;) {
      const exit = await this.#poll(cluster, note);
      if (this.#closing.signal.aborted) return new Promise(() => {});
      if (exit !== undefined) {
        await access?.remove();
        await this.#keepOutput(cluster, spec, note);
        writeWhole(agentFiles(spec.folder).exit, JSON.stringify(exit));
        return exit;
      }
      await access?.renew();
      await this.#clock.sleep(POLL_MS, this.#closing.signal);
    }
  }

  /** undefined while the agent runs, and when the cluster does not answer, which says nothing about the agent. */
  async #poll(cluster: Cluster, { namespace, name }: JobNote): Promise<Exit | undefined> {
    try {
      const job = await cluster.job(namespace, name);
      return jobExit(job, await cluster.pods(namespace, name), new Date(this.#clock.now()).toISOString());
    } catch (error) {
      this.#log.warn(
        { job: name, namespace, error },
        "the state of an agent cannot be read from the cluster",
      );
      return undefined;
    }
  }

  async #keepOutput(cluster: Cluster, spec: LaunchSpec, { namespace, name }: JobNote): Promise<void> {
    try {
      const pod = (await cluster.pods(namespace, name))[0]?.metadata?.name;
      if (pod === undefined) return;
      writeWhole(agentFiles(spec.folder).output, await cluster.log(namespace, pod, spec.logBytes));
    } catch (error) {
      this.#log.debug({ job: name, namespace, error }, "the output of an agent cannot be read");
    }
  }
}
