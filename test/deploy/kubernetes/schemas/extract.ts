/**
 * Writes the types of one version of the Kubernetes API as a table, from the declarations of the official client for that version:
 *   npm pack @kubernetes/client-node@1.0.0 && tar xzf kubernetes-client-node-1.0.0.tgz
 *   npx node test/deploy/kubernetes/schemas/extract.ts package > test/deploy/kubernetes/schemas/kubernetes-1.32.json
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SchemaTable } from "../schema.ts";

/** The kinds that the manifests have, by their names in the client. */
const ROOTS: Readonly<Record<string, string>> = {
  "v1/ConfigMap": "V1ConfigMap",
  "v1/LimitRange": "V1LimitRange",
  "v1/Namespace": "V1Namespace",
  "v1/ResourceQuota": "V1ResourceQuota",
  "v1/Service": "V1Service",
  "v1/ServiceAccount": "V1ServiceAccount",
  "apps/v1/Deployment": "V1Deployment",
  "apps/v1/StatefulSet": "V1StatefulSet",
  "batch/v1/Job": "V1Job",
  "networking.k8s.io/v1/NetworkPolicy": "V1NetworkPolicy",
  "policy/v1/PodDisruptionBudget": "V1PodDisruptionBudget",
  "rbac.authorization.k8s.io/v1/Role": "V1Role",
  "rbac.authorization.k8s.io/v1/RoleBinding": "V1RoleBinding",
};
/** The type of a map has several lines. The client writes a field that is a word of the language with a low line before it. */
const FIELD = /^ {4}'([^']+)'(\?)?: ([^;{]*|\{[\s\S]*?\n {4}\});$/gm;
const NAMED = /\b(?!IntOrString|Date)[A-Z]\w+/g;
/** The status belongs to the cluster. */
const UNUSED = new Set(["status", "managedFields"]);

function extract(folder: string): SchemaTable {
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
  const types: Record<string, Record<string, string>> = {};
  const add = (name: string): void => {
    if (Object.hasOwn(types, name)) return;
    const path = join(folder, "dist", "gen", "models", `${name}.d.ts`);
    const fields = [...readFileSync(path, "utf8").matchAll(FIELD)]
      .map(([, field = "", optional, type = ""]) => ({
        field: field.replace(/^_/, ""),
        optional,
        type: plain(type),
      }))
      .filter(({ field }) => !UNUSED.has(field));
    types[name] = Object.fromEntries(
      fields.map(({ field, optional, type }) => [`${field}${optional ? "" : "!"}`, type]),
    );
    for (const { type } of fields) for (const [named] of type.matchAll(NAMED)) add(named);
  };
  for (const name of Object.values(ROOTS)) add(name);
  return { source: `@kubernetes/client-node ${version}`, kinds: ROOTS, types };
}

/** `Array<T>` as `[T]`, a map of T as `{T}`. */
const plain = (type: string): string =>
  type
    .replaceAll(/\s+/g, " ")
    .replaceAll(/\{ \[key: string\]: (.*?);? \}/g, "{$1}")
    .replace(/^(?:Array|Set)<(.*)>$/, "[$1]");

const [folder = "package"] = process.argv.slice(2);
process.stdout.write(`${JSON.stringify(extract(folder))}\n`);
