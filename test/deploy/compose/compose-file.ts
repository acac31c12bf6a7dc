/** docker-compose.yml as docker compose reads it, with these variables in its environment. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { projectRoot } from "../../harness/project-root.ts";

export const COMPOSE_FILE = join(projectRoot, "docker-compose.yml");
const VARIABLE = /\$\{(\w+):-([^}]*)\}/g;

export interface HealthTest {
  readonly test?: readonly string[];
  readonly disable?: boolean;
}

interface VolumeMount {
  readonly type: string;
  readonly source: string;
  readonly target: string;
}

export interface ComposeService {
  readonly image: string;
  readonly build?: { readonly dockerfile: string; readonly args: Readonly<Record<string, string>> };
  readonly command?: readonly string[];
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly (string | VolumeMount)[];
  readonly networks?: readonly string[] | Readonly<Record<string, object>>;
  readonly network_mode?: string;
  readonly pid?: string;
  readonly privileged?: boolean;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly restart?: string;
  readonly stop_grace_period?: string;
  readonly profiles?: readonly string[];
  readonly healthcheck?: HealthTest;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly deploy?: {
    readonly replicas?: number;
    readonly resources?: { readonly limits?: { readonly memory?: string } };
  };
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean } | null>>;
  readonly volumes: Readonly<Record<string, null>>;
}

export function readCompose(variables: NodeJS.ProcessEnv = {}): ComposeFile {
  const filled = readFileSync(COMPOSE_FILE, "utf8").replace(
    VARIABLE,
    (_, name: string, usual: string) => variables[name] || usual,
  );
  return parse(filled, { merge: true }) as ComposeFile;
}

/** The variables of the file with their defaults. */
export const composeVariables = (): Map<string, string> =>
  new Map(
    [...readFileSync(COMPOSE_FILE, "utf8").matchAll(VARIABLE)].map(([, name = "", usual = ""]) => [
      name,
      usual,
    ]),
  );

/** The volumes and files of a service, in the short form. */
export const mountsOf = ({
  volumes = [],
}: ComposeService): { source: string; target: string; readOnly: boolean }[] =>
  volumes.map((one) => {
    if (typeof one !== "string") return { source: one.source, target: one.target, readOnly: false };
    const [source = "", target = "", mode] = one.split(":");
    return { source, target, readOnly: mode === "ro" };
  });
