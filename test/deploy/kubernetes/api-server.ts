// A stand-in for the API server of a cluster, for the calls of the runner's launcher: an HTTP server with the paths of Jobs, Secrets, pods and
// their logs. It permits what the runner's Role permits, refuses what the API's types refuse, and collects the objects of deleted owners, as
// Kubernetes does. No pod runs: a test sets the pods.

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { V1Job, V1Pod, V1Secret } from "@kubernetes/client-node";
import { rawResources } from "./manifests.ts";
import { problemsOf, type Resource, schemaTables } from "./schema.ts";

type Stored = V1Job | V1Secret;

export interface ApiServer {
  readonly url: string;
  /** The calls that were answered, as `verb resource`. */
  readonly calls: readonly string[];
  jobs(): V1Job[];
  secrets(): V1Secret[];
  setPods(pods: V1Pod[]): void;
  /** Ends the connection of the call with this number from now on, after its effect; all later calls too. */
  breakAfter(call: number): void;
  /** Answers calls again. */
  repair(): void;
  /** Deletes a Job as an operator would. */
  deleteJob(name: string): void;
  stop(): Promise<void>;
}

const VERSION = "kubernetes-1.32";
const PATH =
  /^\/(?:api\/v1|apis\/batch\/v1)\/namespaces\/([^/]+)\/(jobs|secrets|pods)(?:\/([^/]+))?(\/log)?$/;
const KINDS = { jobs: "batch/v1/Job", secrets: "v1/Secret" } as const;

interface Call {
  readonly verb: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly body: Stored | undefined;
}

/** The rights of the runner, such as `create jobs`. */
function rights(): ReadonlySet<string> {
  const role = rawResources()
    .get("runner/access.yaml")
    ?.find(({ kind }) => kind === "Role");
  const rules = (role?.rules ?? []) as { resources: string[]; verbs: string[] }[];
  return new Set(
    rules.flatMap(({ resources, verbs }) =>
      resources.flatMap((one) => verbs.map((verb) => `${verb} ${one}`)),
    ),
  );
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** The objects of the cluster, and the answers to calls about them. */
class Objects {
  readonly #permitted = rights();
  readonly #tables = [schemaTables().get(VERSION)!];
  readonly #stored = new Map<string, Stored>();
  readonly calls: string[] = [];
  pods: V1Pod[] = [];

  of<T extends Stored>(resource: string): T[] {
    const found = [...this.#stored].filter(([key]) => key.startsWith(`${resource}/`));
    return found.map(([, value]) => structuredClone(value) as T);
  }

  delete(isMeant: (key: string) => boolean): void {
    for (const key of this.#stored.keys()) if (isMeant(key)) this.#stored.delete(key);
    this.#collect();
  }

  /** Throws Refusal. */
  answer(call: Call): unknown {
    const { verb, resource, namespace, name } = call;
    if (!this.#permitted.has(`${verb} ${resource}`))
      throw new Refusal(403, `the Role permits no ${verb} ${resource}`);
    this.calls.push(`${verb} ${resource}`);
    if (verb === "create" || verb === "update") return this.#write(call);
    if (resource === "pods") return { apiVersion: "v1", kind: "PodList", metadata: {}, items: this.pods };
    if (resource === "pods/log") return "";
    const key = `${resource}/${namespace}/${name}`;
    const found = this.#stored.get(key);
    if (found === undefined) throw new Refusal(404, "it does not exist");
    if (verb === "get") return found;
    this.delete((one) => one === key);
    return { apiVersion: "v1", kind: "Status", status: "Success" };
  }

  #write({ resource, namespace, name, body, verb }: Call): Stored {
    const kind = KINDS[resource as keyof typeof KINDS];
    if (body === undefined || `${body.apiVersion}/${body.kind}` !== kind)
      throw new Refusal(400, `no ${kind}`);
    // The table has the kinds of the manifests, and so no Secret.
    const problems = problemsOf(body as unknown as Resource, this.#tables) ?? [];
    if (problems.length > 0) throw new Refusal(422, problems.join("; "));
    if (body.metadata?.ownerReferences?.some(({ uid }) => uid === ""))
      throw new Refusal(422, "an owner without uid");
    const key = `${resource}/${namespace}/${verb === "create" ? body.metadata?.name : name}`;
    const old = this.#stored.get(key);
    if (verb === "create" && old !== undefined) throw new Refusal(409, "it exists");
    if (verb === "update" && old === undefined) throw new Refusal(404, "it does not exist");
    if (old !== undefined && "immutable" in old && old.immutable) throw new Refusal(422, "it is immutable");
    const metadata = { ...body.metadata, uid: old?.metadata?.uid ?? randomUUID() };
    const made = { ...body, metadata } as Stored;
    this.#stored.set(key, made);
    this.#collect();
    return made;
  }

  /** Removes the objects whose owner does not exist any more. */
  #collect(): void {
    const uids = new Set([...this.#stored.values()].map(({ metadata }) => metadata?.uid));
    for (const [key, { metadata }] of this.#stored) {
      const owners = metadata?.ownerReferences ?? [];
      if (owners.length > 0 && !owners.some(({ uid }) => uids.has(uid))) this.#stored.delete(key);
    }
  }
}

export async function startApiServer(): Promise<ApiServer> {
  const objects = new Objects();
  let left = Number.POSITIVE_INFINITY;
  const http = createServer((request, response) => void serve(request, response));
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (left <= 0) return void request.socket.destroy();
    left -= 1;
    const [status, value] = answerTo(objects, await callOf(request));
    if (left <= 0) return void request.socket.destroy();
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  }
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    calls: objects.calls,
    jobs: () => objects.of<V1Job>("jobs"),
    secrets: () => objects.of<V1Secret>("secrets"),
    setPods(pods) {
      objects.pods = pods;
    },
    breakAfter(call) {
      left = call;
    },
    repair() {
      left = Number.POSITIVE_INFINITY;
    },
    deleteJob: (name) => objects.delete((key) => key.startsWith("jobs/") && key.endsWith(`/${name}`)),
    stop: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
}

function answerTo(objects: Objects, call: Call): [status: number, value: unknown] {
  try {
    return [200, objects.answer(call)];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { status: code, message } = error;
    return [code, { apiVersion: "v1", kind: "Status", status: "Failure", message, code }];
  }
}

const VERBS: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  DELETE: "delete",
  PATCH: "patch",
};

async function callOf(request: IncomingMessage): Promise<Call> {
  const { pathname } = new URL(request.url ?? "/", "http://api");
  const [, namespace = "", resource = "", name = "", log = ""] = PATH.exec(pathname) ?? [];
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const verb = VERBS[request.method ?? ""] ?? (name === "" ? "list" : "get");
  const hasBody = verb === "create" || verb === "update";
  return {
    verb,
    resource: `${resource}${log}`,
    namespace,
    name,
    body: hasBody ? JSON.parse(text) : undefined,
  };
}
