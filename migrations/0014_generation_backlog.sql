-- Finding the documents whose passages lack vectors of the model in use, after another model was chosen: few or none of many.
create index if not exists documents_by_generation on documents (tenant_id, generation_id) where chunk_count > 0;
