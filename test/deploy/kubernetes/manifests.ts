/** The resources of an overlay as kustomize renders them, and the pods in them. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { projectRoot } from "../../harness/project-root.ts";
import type { Resource } from "./schema.ts";

export const FOLDER = join(projectRoot, "deploy", "kubernetes");
export const OVERLAYS = ["small", "production"] as const;

const COMMANDS: readonly (readonly [string, ...string[]])[] = [
  ["kubectl", "kustomize"],
  ["kustomize", "build"],
];

/** undefined: neither is on PATH. */
export const kustomize = COMMANDS.find(
  ([program, subcommand = ""]) => spawnSync(program, [subcommand, "--help"]).status === 0,
);

/** Throws with kustomize's own message. */
export function render(folder: string): Resource[] {
  const [program, ...args] = kustomize ?? ["kustomize"];
  const run = spawnSync(program, [...args, join(FOLDER, folder)], { encoding: "utf8" });
  if (run.status !== 0) throw new Error(run.stderr);
  return parseAllDocuments(run.stdout).map((document) => document.toJS() as Resource);
}

/** By paths relative to FOLDER. Without patches and kustomizations, which are no whole resources. */
export function rawResources(): Map<string, Resource[]> {
  const paths = (readdirSync(FOLDER, { recursive: true }) as string[]).filter((path) =>
    path.endsWith(".yaml"),
  );
  const whole = paths.filter((path) => !/kustomization\.yaml$|-patch\.yaml$/.test(path));
  return new Map(
    whole.map((path) => [
      path,
      parseAllDocuments(readFileSync(join(FOLDER, path), "utf8")).map((one) => one.toJS() as Resource),
    ]),
  );
}

interface Kustomization {
  readonly resources?: readonly string[];
  readonly patches?: readonly { readonly path: string }[];
}

/** The files and folders that the kustomizations name, relative to FOLDER. */
export function namedFiles(): string[] {
  const paths = (readdirSync(FOLDER, { recursive: true }) as string[]).filter((path) =>
    path.endsWith("kustomization.yaml"),
  );
  return paths.flatMap((path) => {
    const { resources = [], patches = [] } = parse(readFileSync(join(FOLDER, path), "utf8")) as Kustomization;
    const own = path.replace(/\/?kustomization\.yaml$/, "");
    return [...resources, ...patches.map((patch) => patch.path)].map((name) => join(own, name));
  });
}

export interface Container {
  readonly name: string;
  readonly image?: string;
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>;
    readonly limits?: Readonly<Record<string, string>>;
  };
  readonly securityContext?: {
    readonly allowPrivilegeEscalation?: boolean;
    readonly readOnlyRootFilesystem?: boolean;
    readonly privileged?: boolean;
    readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
  };
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
    readonly subPath?: string;
  }[];
  readonly livenessProbe?: object;
  readonly readinessProbe?: object;
}

interface Volume {
  readonly name: string;
  readonly secret?: { readonly secretName: string; readonly defaultMode?: number };
  readonly configMap?: { readonly name: string };
  readonly hostPath?: object;
}

export interface PodSpec {
  readonly serviceAccountName?: string;
  readonly automountServiceAccountToken?: boolean;
  readonly enableServiceLinks?: boolean;
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly securityContext?: {
    readonly runAsNonRoot?: boolean;
    readonly runAsUser?: number;
    readonly seccompProfile?: { readonly type: string };
  };
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes?: readonly Volume[];
}

export interface Workload {
  readonly resource: Resource;
  readonly labels: Readonly<Record<string, string>>;
  readonly pod: PodSpec;
}

interface Template {
  readonly metadata?: { readonly labels?: Readonly<Record<string, string>> };
  readonly spec: PodSpec;
}

/** The pods of all kinds that have some. */
export function workloads(resources: readonly Resource[]): Workload[] {
  return resources.flatMap((resource) => {
    const spec = resource.spec as
      | {
          template?: Template;
          processes?: Readonly<Record<string, { podTemplate: Template }>>;
        }
      | undefined;
    const templates = [
      ...(spec?.template === undefined ? [] : [spec.template]),
      ...Object.values(spec?.processes ?? {}).map(({ podTemplate }) => podTemplate),
    ];
    return templates.map((template) => ({
      resource,
      labels: template.metadata?.labels ?? {},
      pod: template.spec,
    }));
  });
}

export const containersOf = ({ pod }: Workload): Container[] => [
  ...pod.containers,
  ...(pod.initContainers ?? []),
];
