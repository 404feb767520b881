"""Makes the schemas in this folder, strict and without descriptions:

    go mod download k8s.io/kubernetes@v1.36.3
    python3 make.py "$(go env GOMODCACHE)"/k8s.io/kubernetes@v1.36.3/api/openapi-spec/swagger.json
"""
import json
import pathlib
import sys

KINDS = {
    "configmap-v1": "core.v1.ConfigMap",
    "deployment-apps-v1": "apps.v1.Deployment",
    "ingress-networking-v1": "networking.v1.Ingress",
    "poddisruptionbudget-policy-v1": "policy.v1.PodDisruptionBudget",
    "secret-v1": "core.v1.Secret",
    "service-v1": "core.v1.Service",
}
ROOT = "io.k8s.api."
KEPT = {"properties", "items", "type", "required", "format", "$ref", "additionalProperties", "enum", "oneOf", "allOf"}


def schema(node):
    """The node without what validation does not need; unknown members are errors."""
    if "$ref" in node:
        return {"$ref": node["$ref"]}
    out = {k: v for k, v in node.items() if k in KEPT}
    if out.get("format") == "int-or-string":
        return {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    if "properties" in out:
        out["properties"] = {k: schema(v) for k, v in sorted(out["properties"].items())}
        out["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = schema(out[key])
    return out


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rsplit("/", 1)[1]
        for child in node.values():
            yield from references(child)


definitions = json.loads(pathlib.Path(sys.argv[1]).read_text())["definitions"]
for name, kind in KINDS.items():
    root = ROOT + kind
    used, todo = {}, [root]
    while todo:
        ref = todo.pop()
        if ref not in used:
            used[ref] = schema(definitions[ref])
            todo.extend(references(used[ref]))
    group, version = definitions[root]["x-kubernetes-group-version-kind"][0]["group"], definitions[root]["x-kubernetes-group-version-kind"][0]["version"]
    used[root]["properties"]["apiVersion"]["enum"] = [f"{group}/{version}" if group else version]
    used[root]["properties"]["kind"]["enum"] = [kind.rsplit(".", 1)[1]]
    used[root]["required"] = ["apiVersion", "kind", "metadata"]
    document = {"$ref": "#/definitions/" + root, "definitions": used}
    path = pathlib.Path(__file__).parent / f"{name}.json"
    path.write_text(json.dumps(document, sort_keys=True, indent=1) + "\n")
