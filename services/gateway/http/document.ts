/** The OpenAPI document of the gateway, which is also the rule by which it reads paths and query strings. */
import { readFileSync } from "node:fs";
import { invalid } from "../../../shared/protocol/errors.ts";

interface ParameterSchema {
  readonly type?: string;
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: ParameterSchema;
}

export interface ApiOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly security?: readonly { readonly bearer: readonly string[] }[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, MediaType>>;
  };
  readonly responses: Readonly<Record<string, unknown>>;
}

interface MediaType {
  readonly schema: Readonly<Record<string, unknown>>;
}

export interface OpenApiDocument {
  readonly info: { readonly title: string; readonly summary: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

const FILE = new URL("../../../shared/protocol/openapi.json", import.meta.url);

export function readDocument(): OpenApiDocument {
  return JSON.parse(readFileSync(FILE, "utf8")) as OpenApiDocument;
}

export function operationsOf({ paths }: OpenApiDocument): Map<string, ApiOperation> {
  const all = Object.values(paths).flatMap((methods) => Object.values(methods));
  return new Map(all.map((operation) => [operation.operationId, operation]));
}

/** Reads the members of an operation from its path and its query string. Throws INVALID for a name that it does not have. */
export type UrlReader = (
  inPath: Readonly<Record<string, string>>,
  query: URLSearchParams,
) => Record<string, unknown>;

export function urlReader({ parameters = [] }: ApiOperation): UrlReader {
  const ofPath = parameters.filter(({ in: place }) => place === "path");
  const ofQuery = parameters.filter(({ in: place }) => place === "query");
  const known = new Map(ofQuery.map((one) => [one.name, one]));
  const expected = known.size === 0 ? "no query parameters" : `one of ${[...known.keys()].join(", ")}`;
  return (inPath, query) => {
    const members: Record<string, unknown> = {};
    for (const { name, schema } of ofPath) {
      const text = inPath[name];
      if (text !== undefined) members[name] = valueOfText(name, text, schema);
    }
    for (const name of query.keys()) {
      const parameter = known.get(name);
      if (parameter === undefined) throw invalid(name, expected);
      const [text = "", ...more] = query.getAll(name);
      if (more.length > 0) throw invalid(name, "one value");
      members[name] = valueOfText(name, text, parameter.schema);
    }
    return members;
  };
}

/** Texts of numbers and booleans as their values; the service that gets them checks the rest. */
function valueOfText(name: string, text: string, { type }: ParameterSchema): unknown {
  switch (type) {
    case "integer": {
      const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
      if (!Number.isSafeInteger(value)) throw invalid(name, "an integer", text);
      return value;
    }
    case "boolean":
      if (text !== "true" && text !== "false") throw invalid(name, "true or false", text);
      return text === "true";
    default:
      return text;
  }
}
