# Makes Leftfold's own list of a file of models.dev:
#     jq -cS -f own.jq api.json | gzip -9n > own.json.gz
#     jq -rS 'keys[]' api.json > own_names.txt
# It keeps the models that call tools, answer with text, are not deprecated and were released since June 2025, and of them
# the members that `mod.rs` reads. OWN_DATE in `mod.rs` is the date of the file.
def without_zeros: with_entries(select(.value != null and .value != 0));
def model: {
    limit: (.limit | without_zeros),
    cost: (.cost // {} | {input, output, cache_read, cache_write} | without_zeros),
    attachment: ((.modalities.input | index("image")) != null),
    reasoning,
    temperature: (.temperature // false),
    reasoning_options: [(.reasoning_options // [])[] | select(.type == "effort") | {values}],
    provider: ((.provider // {}) | {npm, api, shape} | without_zeros)
  }
  | if .attachment then . else del(.attachment) end
  | if .reasoning then . else del(.reasoning) end
  | if .temperature then del(.temperature) else . end
  | with_entries(select(.value != {} and .value != []));
with_entries(.value |= {
    npm, api, env,
    models: (.models | with_entries(
      select(.value | .tool_call and .status != "deprecated" and .release_date >= "2025-06"
        and (.modalities.output | index("text")) != null)
      | .value |= model))
  })
# Azure's own clients derive this address from the name of the resource.
| if has("azure-cognitive-services") then
    ."azure-cognitive-services".api = "https://${AZURE_COGNITIVE_SERVICES_RESOURCE_NAME}.cognitiveservices.azure.com/openai/v1"
  else . end
